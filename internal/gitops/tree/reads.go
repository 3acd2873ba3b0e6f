package tree

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// aspect is the part of a path that a query is about.
type aspect byte

// The aspects: the kind of a path, the content of a file, the names in a
// folder.
const (
	aboutKind    aspect = 'k'
	aboutContent aspect = 'c'
	aboutListing aspect = 'l'
)

// query is one access of a render: two renders with equal results of all
// queries are equal.
type query struct {
	path  string
	about aspect
}

// result is the outcome of a query, as text that can be compared.
type result struct {
	text string
	// inside: the hash of the folder within decides it.
	inside bool
}

// Reads is the queries of a View with their results: the kind of a path or that
// it is missing, the hash of a file, the names and kinds in a folder. The zero
// value has no queries.
type Reads struct {
	links          int
	within, anchor string
	records        []record // sorted
}

// record is a query with its result.
type record struct {
	query
	result
}

// newReads sorts the queries, so that Hash is deterministic.
func newReads(v *View) Reads {
	reads := Reads{links: v.limits.Links, within: v.within, anchor: v.anchor, records: make([]record, 0, len(v.results))}
	for key, value := range v.results {
		reads.records = append(reads.records, record{key, value})
	}
	slices.SortFunc(reads.records, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.about, b.about))
	})
	return reads
}

// Same reports whether the same queries have the same results in another
// revision, so that what was rendered still holds. It is false for a Store that
// fails.
func (r Reads) Same(store Store) bool {
	if len(r.records) == 0 {
		return true
	}
	unchanged := false
	if r.anchor != "" {
		entry, err := store.Entry(r.within)
		unchanged = err == nil && entry.Kind == Folder && entry.Hash == r.anchor
	}
	resolver := newResolver(store, r.links)
	for _, q := range r.records {
		if unchanged && q.inside {
			continue
		}
		if text, ok := resolver.evaluate(q.query); !ok || text != q.text {
			return false
		}
	}
	return true
}

// evaluate runs a query again. ok is false if the Store fails.
func (r *resolver) evaluate(q query) (text string, ok bool) {
	var err error
	switch q.about {
	case aboutListing:
		var entries []Entry
		_, entries, err = r.list(q.path, nowhere)
		text = listingResult(entries, err)
	case aboutContent:
		var at place
		if at, err = r.resolve(q.path, nowhere); err == nil {
			err = readable(at)
		}
		text = contentResult(at, err)
	default:
		var at place
		at, err = r.resolve(q.path, nowhere)
		text = kindResult(at, err)
	}
	return text, err == nil || isContentError(err)
}

// Hash is equal for equal queries with equal results.
func (r Reads) Hash() string {
	sum := sha256.New()
	for _, q := range r.records {
		fmt.Fprintf(sum, "%c %q %q\n", q.about, q.path, q.text)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Len is the number of questions.
func (r Reads) Len() int { return len(r.records) }
