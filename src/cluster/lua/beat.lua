-- A worker's heartbeat: write what it says of itself, keep it on the list, and tell it whether it was detached.
-- KEYS  1 worker:{worker_id}, 2 workers, 3 detach:{worker_id}      ARGV  1 worker_id, 2 ttl_ms, 3... field, value, ...
-- Returns 1 detached, 0 not. The heartbeat's time is Redis' own, so that no two clocks are compared.
local now = redis.call("TIME")
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local detached = redis.call("EXISTS", KEYS[3])
redis.call("HSET", KEYS[1], "last_heartbeat_ts", now_ms, "detached", detached, unpack(ARGV, 3))
redis.call("PEXPIRE", KEYS[1], ARGV[2])
redis.call("ZADD", KEYS[2], now_ms, ARGV[1])
return detached
