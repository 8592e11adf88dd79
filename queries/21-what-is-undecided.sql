-- question: What should somebody look at?
-- sample:   The three tracks that are most likely the red hatchback among those left undecided; `panorama why`
--           tells more of each.
-- expect:   Cars: the parked hatchback of walk/lane and the one at gate/evening, where they were not accepted.
SELECT tracks WHERE entity = 'red-hatchback' AND band = 'uncertain' ORDER BY score DESC LIMIT 3;
