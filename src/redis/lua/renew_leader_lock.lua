-- Prolong the leader lock if it is still mine, keep its epoch (Postgres granted it) in any case, and say whether that epoch was asked to step down.
-- KEYS  1 leader:lock, 2 leader:last_seen_ts, 3 leader:degrade, 4 leader:epoch      ARGV  1 worker_id, 2 ttl_ms, 3 epoch
-- Returns 1 renewed, 0 the leader lock is not mine, -1 step down (the leader lock is not prolonged).
-- It always writes, and first: a server that takes no writes (replicas gone, memory full) refuses here. There the leader lock just ran
-- out, and "not mine" would end term after term for as long as that lasts.
local epoch = redis.call("GET", KEYS[4])
if (tonumber(epoch) or 0) < tonumber(ARGV[3]) then epoch = ARGV[3] end
redis.call("SET", KEYS[4], epoch)
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call("GET", KEYS[3]) == ARGV[3] then return -1 end
redis.call("PEXPIRE", KEYS[1], ARGV[2])
local now = redis.call("TIME")
redis.call("SET", KEYS[2], now[1] * 1000 + math.floor(now[2] / 1000))
return 1
