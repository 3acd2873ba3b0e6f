// Package cache has the in-memory caches that several planes need: LRU, which is
// bounded by the size of its values, Weak, whose values live for as long as
// something else refers to them, and Texts, which makes equal texts one.
//
// It uses the standard library alone, so that every plane may import it. All
// are safe for concurrent use.
package cache
