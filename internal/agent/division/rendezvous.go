package division

import "hash/fnv"

// ownerOf returns the member with the highest rendezvous hash of a key; empty
// without members. When a member leaves, only its keys move; one that joins takes
// an equal share of each other. Replicas of different versions must agree, so the
// hash never changes.
func ownerOf(members []string, key string) string {
	owner, highest, of := "", uint64(0), hashOf(key)
	for _, member := range members {
		// Both parts are hashed before they are mixed: names of members differ in a
		// few characters only.
		weight := mix(of ^ mix(hashOf(member)))
		if owner == "" || weight > highest || weight == highest && member < owner {
			owner, highest = member, weight
		}
	}
	return owner
}

// hashOf is the FNV-1a hash of a text.
func hashOf(text string) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(text)) // it never fails
	return sum.Sum64()
}

// mix spreads every bit of a number over all others (the last step of SplitMix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
