"""A worker without any client of ours: stock nats-py and urllib. Works one queue until its standard input ends."""

import asyncio, json, sys, urllib.error, urllib.request
import nats

API, NATS, QUEUE = sys.argv[1:4]


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(API + path, data, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


async def main():
    ready = next(each for each in call("GET", f"/queues/{QUEUE}")[1]["ready"] if each["priority"] == "normal")
    bus = await nats.connect(NATS)
    pull = await bus.jetstream().pull_subscribe_bind(ready["consumer"], ready["stream"])
    while True:
        try:
            messages = await pull.fetch(1, timeout=5)
        except nats.errors.TimeoutError:
            continue
        for message in messages:
            job = json.loads(message.data)
            status, claimed = await asyncio.to_thread(
                call, "POST", f"/jobs/{job['job_id']}/claim", {"attempt": job["attempt"], "worker": "stock"}
            )
            await (message.nak(delay=1) if status >= 500 else message.ack())
            if status == 200:
                print(json.dumps({"job_id": job["job_id"], "payload": claimed["payload"]}), flush=True)
                call("POST", f"/jobs/{job['job_id']}/complete", {"attempt": job["attempt"], "ok": True})


asyncio.run(main())
