package tree

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"

	"slipway.dev/slipway/api/refusal"
)

// Limits bound what one View reads.
type Limits struct {
	FileBytes  int64 // of one file
	TotalBytes int64 // of all files together
	Files      int   // questions: files that are read, folders that are listed
	Links      int   // on the way of one path
}

// DefaultLimits are far above what charts and manifests need.
func DefaultLimits() Limits {
	return Limits{FileBytes: 10 << 20, TotalBytes: 64 << 20, Files: 20000, Links: 16}
}

// View is the access of one render to a Store: it follows links while they stay
// inside, bounds all reads, and records every query. It is for one goroutine at
// a time.
//
// Paths may have links, "." and ".." in them, which are resolved as a kernel
// resolves them. They must not be absolute.
type View struct {
	limits   Limits
	resolver *resolver
	within   string
	anchor   string // hash of the folder within
	bytes    int64
	queries  int
	results  map[query]result
	failure  error
}

// NewView begins to read a Store.
func NewView(store Store, limits Limits) *View {
	return &View{limits: limits, resolver: newResolver(store, limits.Links), results: map[query]result{}, within: nowhere}
}

// nowhere is a folder that no path is in.
const nowhere = "\x00"

// Within sets the folder that most of the reads are in. It only makes
// [Reads.Same] fast: a folder with the same hash has the same results. Call it
// before the first query.
func (v *View) Within(folder string) {
	entry, err := v.resolver.store.Entry(folder)
	if err == nil && entry.Kind == Folder && entry.Hash != "" {
		v.within, v.anchor = folder, entry.Hash
	}
}

// Stat returns the kind and the name of what a path leads to, but neither size
// nor hash: a render must not depend on content that it did not read.
func (v *View) Stat(path string) (Entry, error) {
	if err := v.countQuery(path); err != nil {
		return Entry{}, err
	}
	at, err := v.resolver.resolve(path, v.within)
	v.record(query{path: path, about: aboutKind}, at.inside, kindResult(at, err), err)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Name: base(at.path), Kind: at.entry.Kind}, nil
}

// Read is the content of a file. A pointer of Git LFS is a *[Pointer]: the file
// that it stands for is elsewhere, and a render without it would be incomplete.
func (v *View) Read(path string) ([]byte, error) {
	if err := v.countQuery(path); err != nil {
		return nil, err
	}
	at, err := v.resolver.resolve(path, v.within)
	if err == nil {
		err = readable(at)
	}
	v.record(query{path: path, about: aboutContent}, at.inside, contentResult(at, err), err)
	if err != nil {
		return nil, err
	}
	if at.entry.Size > v.limits.FileBytes {
		return nil, tooLarge(path, v.limits.FileBytes)
	}
	if v.bytes += at.entry.Size; v.bytes > v.limits.TotalBytes {
		return nil, refusal.New(path, refusal.TooLarge, "it is one file too many: together they have more than %d bytes", v.limits.TotalBytes)
	}
	content, err := v.resolver.store.Read(at.path, v.limits.FileBytes)
	if err != nil {
		v.fail(err)
		return nil, err
	}
	if pointer := parsePointer(path, content); pointer != nil {
		return nil, pointer
	}
	return content, nil
}

// List returns the names and kinds of what is in a folder, sorted by name.
// Links are listed as links.
func (v *View) List(path string) ([]Entry, error) {
	if err := v.countQuery(path); err != nil {
		return nil, err
	}
	at, entries, err := v.resolver.list(path, v.within)
	v.record(query{path: path, about: aboutListing}, at.inside && contains(v.within, at.path), listingResult(entries, err), err)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		entries[i] = Entry{Name: entries[i].Name, Kind: entries[i].Kind}
	}
	return entries, nil
}

// list resolves a folder and lists it.
func (r *resolver) list(path, within string) (place, []Entry, error) {
	at, err := r.resolve(path, within)
	if err != nil {
		return at, nil, err
	}
	if at.entry.Kind != Folder {
		return at, nil, refusal.New(path, refusal.Invalid, "it is not a folder")
	}
	stored, err := r.store.List(at.path)
	// The Store may share the slice with others.
	return at, append([]Entry(nil), stored...), err
}

// Failure is the first error that is not about the content of the repository:
// the Store itself failed. A result that was rendered then is not valid.
func (v *View) Failure() error { return v.failure }

// Reads returns the queries so far, with their results.
func (v *View) Reads() Reads { return newReads(v) }

// countQuery bounds the number of queries: a render that lists folders in a
// loop ends here.
func (v *View) countQuery(path string) error {
	if v.queries++; v.queries > v.limits.Files {
		return refusal.New(path, refusal.TooMany, "it is one read too many: more than %d files and folders are read", v.limits.Files)
	}
	return nil
}

// record keeps the result of a query. A Store that failed gave none.
func (v *View) record(q query, inside bool, text string, err error) {
	if err != nil && !isContentError(err) {
		v.fail(err)
		return
	}
	v.results[q] = result{text: text, inside: inside}
}

// fail keeps the first failure of the Store.
func (v *View) fail(err error) {
	if v.failure == nil && !isContentError(err) {
		v.failure = err
	}
}

// isContentError reports whether an error is a fact about the content, and not
// a failure of the Store.
func isContentError(err error) bool {
	var refused *refusal.Refusal
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, &refused)
}

// readable refuses what is no file.
func readable(at place) error {
	switch at.entry.Kind {
	case File:
		return nil
	case Folder:
		return refusal.New(cmp.Or(at.path, "."), refusal.Invalid, "it is a folder, not a file")
	}
	return refusal.New(at.path, refusal.Unsupported, "it is a device or a pipe, not a file")
}

// The results as text. View and Reads.Same build them with the same functions.

// kindResult is the kind of a path.
func kindResult(at place, err error) string {
	if err != nil {
		return errorResult(err)
	}
	return string(at.entry.Kind)
}

// contentResult is the hash of a file.
func contentResult(at place, err error) string {
	if err != nil {
		return errorResult(err)
	}
	return at.entry.Hash
}

// listingResult is a hash over the names and kinds in a folder. Sizes and
// hashes are not part of it: they are content.
func listingResult(entries []Entry, err error) string {
	if err != nil {
		return errorResult(err)
	}
	sum := sha256.New()
	for _, entry := range entries {
		writeEntry(sum, Entry{Name: entry.Name, Kind: entry.Kind})
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// errorResult is equal for all missing paths: at which element a path ends is
// not part of the query.
func errorResult(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	return "! " + err.Error()
}
