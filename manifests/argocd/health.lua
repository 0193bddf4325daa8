-- Health of a WarmModel for Argo CD. Argo CD runs this without Lua's standard libraries.
--
-- Degraded is what a human must put right (condition Stalled); not being Ready yet is Progressing,
-- because a model may take many minutes to load.
local function condition(type)
  local conditions = obj.status ~= nil and obj.status.conditions or {}
  for _, c in ipairs(conditions) do
    if c.type == type then
      return c
    end
  end
  return {}
end

local function told(c)
  if c.message ~= nil and c.message ~= "" then
    return c.reason .. ": " .. c.message
  end
  return c.reason
end

if obj.metadata.deletionTimestamp ~= nil then
  return {status = "Progressing", message = "being deleted"}
end
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "the operator has not seen this generation yet"}
end

local stalled = condition("Stalled")
if stalled.status == "True" then
  return {status = "Degraded", message = told(stalled)}
end

local ready = condition("Ready")
if ready.status == "True" then
  return {status = "Healthy", message = told(ready)}
end
return {status = "Progressing", message = told(ready) or "the condition Ready is not reported yet"}
