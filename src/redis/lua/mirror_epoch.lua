-- Keep the highest epoch seen. Only upwards: a leader that was replaced must not hide its successor.
-- KEYS  1 leader:epoch      ARGV  1 epoch
-- Returns the epoch that Redis has afterwards.
local known = tonumber(redis.call("GET", KEYS[1])) or 0
local offered = tonumber(ARGV[1])
if offered <= known then return known end
redis.call("SET", KEYS[1], ARGV[1])
return offered
