import { closest } from './closest.ts';

/**
 * The names of the IANA time zone database that Intl.supportedValuesOf leaves out, because it lists one name for each zone:
 * links, renamed zones and Etc. The abbreviations among the database's names are left out on purpose.
 */
const OTHER_NAMES = `
  Africa/Asmara Africa/Timbuktu America/Argentina/Buenos_Aires America/Argentina/Catamarca
  America/Argentina/ComodRivadavia America/Argentina/Cordoba America/Argentina/Jujuy America/Argentina/Mendoza
  America/Atikokan America/Atka America/Ensenada America/Fort_Wayne America/Indiana/Indianapolis
  America/Kentucky/Louisville America/Knox_IN America/Montreal America/Nipigon America/Nuuk America/Pangnirtung
  America/Porto_Acre America/Rainy_River America/Rosario America/Santa_Isabel America/Shiprock America/Thunder_Bay
  America/Virgin America/Yellowknife Antarctica/South_Pole Asia/Ashkhabad Asia/Choibalsan Asia/Chongqing
  Asia/Chungking Asia/Dacca Asia/Harbin Asia/Ho_Chi_Minh Asia/Istanbul Asia/Kashgar Asia/Kathmandu Asia/Kolkata
  Asia/Macao Asia/Tel_Aviv Asia/Thimbu Asia/Ujung_Pandang Asia/Ulan_Bator Asia/Yangon Atlantic/Faroe
  Atlantic/Jan_Mayen Australia/ACT Australia/Canberra Australia/Currie Australia/LHI Australia/NSW Australia/North
  Australia/Queensland Australia/South Australia/Tasmania Australia/Victoria Australia/West Australia/Yancowinna
  Brazil/Acre Brazil/DeNoronha Brazil/East Brazil/West CST6CDT Canada/Atlantic Canada/Central Canada/Eastern
  Canada/Mountain Canada/Newfoundland Canada/Pacific Canada/Saskatchewan Canada/Yukon Chile/Continental
  Chile/EasterIsland Cuba EST5EDT Egypt Eire Etc/GMT Etc/GMT+0 Etc/GMT+1 Etc/GMT+10 Etc/GMT+11 Etc/GMT+12 Etc/GMT+2
  Etc/GMT+3 Etc/GMT+4 Etc/GMT+5 Etc/GMT+6 Etc/GMT+7 Etc/GMT+8 Etc/GMT+9 Etc/GMT-0 Etc/GMT-1 Etc/GMT-10 Etc/GMT-11
  Etc/GMT-12 Etc/GMT-13 Etc/GMT-14 Etc/GMT-2 Etc/GMT-3 Etc/GMT-4 Etc/GMT-5 Etc/GMT-6 Etc/GMT-7 Etc/GMT-8 Etc/GMT-9
  Etc/GMT0 Etc/Greenwich Etc/UCT Etc/UTC Etc/Universal Etc/Zulu Europe/Belfast Europe/Kyiv Europe/Nicosia
  Europe/Tiraspol Europe/Uzhgorod Europe/Zaporozhye GB GB-Eire GMT Greenwich Hongkong Iceland Iran Israel Jamaica
  Japan Kwajalein Libya MST7MDT Mexico/BajaNorte Mexico/BajaSur Mexico/General NZ NZ-CHAT Navajo PRC PST8PDT
  Pacific/Chuuk Pacific/Johnston Pacific/Kanton Pacific/Pohnpei Pacific/Samoa Pacific/Yap Poland Portugal ROC ROK
  Singapore Turkey UCT US/Alaska US/Aleutian US/Arizona US/Central US/East-Indiana US/Eastern US/Hawaii
  US/Indiana-Starke US/Michigan US/Mountain US/Pacific US/Samoa UTC Universal W-SU Zulu
`;

/** A zone newer than the list above has a name of this form. */
const AREA_NAME =
  /^(Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific)(\/[A-Z][A-Za-z]*([_-][A-Za-z]+)*){1,2}$/;
const OFFSET = /^(UTC|GMT|Z)?[+-]?\d|^(UTC|GMT)[+-]|^Z$/i;
/** As in PST, CEST, IST. */
const ABBREVIATION = /^[A-Z]{2,5}$/i;

/** For those who write what their calendar shows. */
const PLACES: Readonly<Record<string, string>> = {
  EST: 'America/New_York',
  EDT: 'America/New_York',
  CST: 'America/Chicago',
  CDT: 'America/Chicago',
  MST: 'America/Denver',
  MDT: 'America/Denver',
  PST: 'America/Los_Angeles',
  PDT: 'America/Los_Angeles',
  HST: 'Pacific/Honolulu',
  CET: 'Europe/Berlin',
  CEST: 'Europe/Berlin',
  MET: 'Europe/Berlin',
  EET: 'Europe/Athens',
  WET: 'Europe/Lisbon',
  BST: 'Europe/London',
  IST: 'Asia/Kolkata',
  JST: 'Asia/Tokyo',
};

/** Twice as long as the longest name. The search for what was meant takes 12 ms then, and seconds with 100,000 characters. */
const NAME_MAX_CHARS = 64;

const NAMES: ReadonlySet<string> = new Set([...Intl.supportedValuesOf('timeZone'), ...OTHER_NAMES.trim().split(/\s+/)]);
const SPELLINGS: ReadonlyMap<string, string> = new Map([...NAMES].map((name) => [name.toLowerCase(), name]));

/**
 * What is wrong with a time zone, and what would be right; null for an IANA name as it is spelled there. Abbreviations, offsets
 * and "local" are refused: they mean different times to different people, seasons or machines.
 */
export function zoneNameFault(name: string): string | null {
  if (NAMES.has(name)) return null;
  if (name.length > NAME_MAX_CHARS) return noZone(`${name.slice(0, NAME_MAX_CHARS)}...`, undefined);
  const spelling = SPELLINGS.get(name.toLowerCase());
  if (spelling !== undefined) return `${name} is spelled ${spelling}`;
  if (name.trim() === '') return 'is required: the IANA name of a time zone, such as Europe/Berlin or UTC';
  if (/^(local|localtime|system|default)$/i.test(name)) {
    return `${name} is another zone on each machine; name the zone, such as Europe/Berlin or UTC`;
  }
  if (OFFSET.test(name)) {
    return `${name} is an offset, which does not follow changes of the clocks; name a zone, such as Europe/Berlin or UTC`;
  }
  if (ABBREVIATION.test(name)) {
    const place = PLACES[name.toUpperCase()] ?? 'Europe/Berlin';
    return `${name} is no IANA name: abbreviations have several meanings; name a place, such as ${place}`;
  }
  if (AREA_NAME.test(name) && intlKnows(name)) return null;
  return noZone(name, nameOfPlace(name) ?? closest(name, [...NAMES]));
}

function noZone(name: string, meant: string | undefined): string {
  const hint = meant === undefined ? 'name a zone, such as Europe/Berlin or UTC' : `did you mean ${meant}?`;
  return `${name} is no IANA time zone name; ${hint}`;
}

/** For those who name the place alone. */
function nameOfPlace(place: string): string | undefined {
  const ending = `/${place.replaceAll(' ', '_').toLowerCase()}`;
  return [...NAMES].find((name) => name.toLowerCase().endsWith(ending));
}

function intlKnows(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en-US', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}
