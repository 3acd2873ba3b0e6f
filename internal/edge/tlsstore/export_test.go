package tlsstore

// Pairs is how many certificates the index holds.
func (ix *Index) Pairs() int {
	count := 0
	ix.pairs.each(func(digest, sharedPair) { count++ })
	return count
}
