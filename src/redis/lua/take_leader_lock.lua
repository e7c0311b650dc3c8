-- Take the leader lock if it is free, and learn the highest epoch that Redis has heard of, as one step.
-- KEYS  1 leader:lock, 2 leader:epoch, 3 leader:last_seen_ts      ARGV  1 worker_id, 2 ttl_ms
-- Returns the epoch hint (0: none), or, where somebody else sits there, minus the ms until the leader lock is free unless it is
-- renewed. Asking again while seated prolongs the leader lock.
local holder = redis.call("GET", KEYS[1])
if holder and holder ~= ARGV[1] then return -math.max(1, redis.call("PTTL", KEYS[1])) end
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
local now = redis.call("TIME")
redis.call("SET", KEYS[3], now[1] * 1000 + math.floor(now[2] / 1000))
return tonumber(redis.call("GET", KEYS[2])) or 0
