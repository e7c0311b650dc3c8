-- A worker's heartbeat: write what it says of itself, keep it on the list, tell it whether it was detached, and of the lock if it stands by.
-- KEYS  1 worker:{worker_id}, 2 workers, 3 detach:{worker_id}, 4 subleader:{node_id}:lock, 5 leader:lock      ARGV  1 worker_id, 2 ttl_ms, 3 "1" if it stands by, 4... field, value, ...
-- Returns {1 detached or 0, 1 it has the subleader lock, which is taken or kept, or 0, ms until the leader lock is free unless it is
-- renewed; 0: free, its own, or not asked for}. The heartbeat's time is Redis' own, so that no two clocks are compared.
local now = redis.call("TIME")
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local detached = redis.call("EXISTS", KEYS[3])
redis.call("HSET", KEYS[1], "last_heartbeat_ts", now_ms, "detached", detached, unpack(ARGV, 4))
redis.call("PEXPIRE", KEYS[1], ARGV[2])
redis.call("ZADD", KEYS[2], now_ms, ARGV[1])
if ARGV[3] ~= "1" then return {detached, 0, 0} end
local seated = 0
local subleader = redis.call("GET", KEYS[4])
if not subleader or subleader == ARGV[1] then
  redis.call("SET", KEYS[4], ARGV[1], "PX", ARGV[2])
  seated = 1
end
local leader = redis.call("GET", KEYS[5])
if not leader or leader == ARGV[1] then return {detached, seated, 0} end
return {detached, seated, math.max(1, redis.call("PTTL", KEYS[5]))}
