-- question: When did one follow the other?
-- sample:   The courier comes within half a minute after the blue van.
-- expect:   One pair, at gate/morning: the van from second 2, the courier from second 5.
SELECT moments WHERE entity = 'blue-van' FOLLOWED BY entity = 'courier' WITHIN INTERVAL 30 SECONDS;
