package upstream

import "math"

// highest is rendezvous hashing: every endpoint has a score for the key, and
// the highest wins. When an endpoint is removed, only its keys move, and they
// spread over all others; when one is added, it takes its share from all. An
// endpoint that is not admitted is skipped in the same way, so no table has to
// be built, and every replica sends a key to the same endpoint.
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

// admitsKey admits more and more keys to an endpoint in slow start. A key that
// was admitted once stays.
func (g *pickFilter) admitsKey(e *Endpoint, score uint64) bool {
	warmth := g.share(e)
	return warmth == fullShare || mix(score)%fullShare < warmth
}

// weigh makes a score count by weight: of scores w/-ln(u), with u uniform in
// (0,1), each endpoint has the highest in proportion to its w.
func weigh(hash, weight uint64) float64 {
	u := (float64(hash>>11) + 0.5) / (1 << 53)
	return float64(weight) / -math.Log(u)
}

// mix spreads every bit over the whole word, as the finalizer of SplitMix64
// does.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
