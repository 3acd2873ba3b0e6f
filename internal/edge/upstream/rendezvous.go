package upstream

import "math"

// highest is consistent hashing by rendezvous: every endpoint makes a score of
// the key, and the highest wins. When an endpoint goes, only its keys move, and
// they spread over all others; when one comes, it takes its share from all. An
// endpoint that is not admitted is as good as gone, so no table has to be built
// for that, and every replica sends a key to the same endpoint.
func (f *candidates) highest(g *pickFilter, key uint64) *endpointEntry {
	key = mix(key)
	var best *endpointEntry
	if f.cumulative == nil {
		most := uint64(0)
		for _, m := range f.entries {
			score := mix(key ^ m.endpoint.hashSeed)
			if (best == nil || score > most) && g.admits(m.endpoint) && g.admitsKey(m.endpoint, score) {
				best, most = m, score
			}
		}
	} else {
		most := 0.0
		for _, m := range f.entries {
			hash := mix(key ^ m.endpoint.hashSeed)
			score := weigh(hash, m.weight)
			if (best == nil || score > most) && g.admits(m.endpoint) && g.admitsKey(m.endpoint, hash) {
				best, most = m, score
			}
		}
	}
	if best == nil {
		return f.scan(g, nil)
	}
	return best
}

// admitsKey lets more and more keys to an endpoint in slow start, and none back.
func (g *pickFilter) admitsKey(e *Endpoint, score uint64) bool {
	warmth := g.share(e)
	return warmth == fullShare || mix(score)%fullShare < warmth
}

// weigh makes a hash count by weight: of scores w/-ln(u), with u even in (0,1),
// the highest is each one's in proportion to its w.
func weigh(hash, weight uint64) float64 {
	u := (float64(hash>>11) + 0.5) / (1 << 53)
	return float64(weight) / -math.Log(u)
}

// mix spreads every bit over the whole word, as SplitMix64 does.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
