-- question: What should somebody look at?
-- sample:   The three tracks that are most likely the red hatchback among those left undecided; `panorama why`
--           tells more of each.
-- expect:   Where it was to be seen and not accepted: the second of its two passages on road/noon, around
--           second 15.
SELECT tracks WHERE entity = 'red-hatchback' AND band = 'uncertain' ORDER BY score DESC LIMIT 3;
