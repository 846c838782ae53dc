import { runService } from '../core/runtime/run-service.ts';
import { composeReaper } from './compose.ts';

await runService('reaper', composeReaper);
