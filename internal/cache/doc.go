// Package cache has the two in-memory caches that several planes need: LRU,
// which is bounded by the size of its values, and Weak, whose values live for
// as long as something else refers to them.
//
// It uses the standard library alone, so that every plane may import it. Both
// caches are safe for concurrent use.
package cache
