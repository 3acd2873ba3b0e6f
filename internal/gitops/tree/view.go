package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
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

// View is how one render reads a Store: links are followed while they stay
// inside, everything is bounded, and what was asked is noted. It is for one
// goroutine at a time.
//
// Paths may have links, "." and ".." in them, which are followed as a kernel
// follows them. They must not be absolute.
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

// Within says which folder most of the reads are in. It only makes [Reads.Same]
// quick: a folder whose hash is the same has the same answers. Call it before
// the first question.
func (v *View) Within(folder string) {
	entry, err := v.resolver.store.Entry(folder)
	if err == nil && entry.Kind == Folder && entry.Hash != "" {
		v.within, v.anchor = folder, entry.Hash
	}
}

// Stat tells the kind and the name of what a path leads to. It tells neither
// size nor hash: what was rendered must not depend on a content that was not
// read.
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

// Read is the content of a file. A pointer of Git LFS is refused: the file that
// it stands for is elsewhere, and a render without it would be incomplete.
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
		return nil, refusef(path, "is one file too many: together they have more than %d bytes", v.limits.TotalBytes)
	}
	content, err := v.resolver.store.Read(at.path, v.limits.FileBytes)
	if err != nil {
		v.fail(err)
		return nil, err
	}
	if isPointer(content) {
		return nil, pointerRefusal(path)
	}
	return content, nil
}

// List is the names and kinds of what is in a folder, sorted by name. Links are
// told as links.
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

// list resolves a folder and asks what is in it.
func (r *resolver) list(path, within string) (place, []Entry, error) {
	at, err := r.resolve(path, within)
	if err != nil {
		return at, nil, err
	}
	switch at.entry.Kind {
	case Folder:
	case Submodule:
		return at, nil, submoduleRefusal(at.path)
	default:
		return at, nil, refusef(path, "is not a folder")
	}
	stored, err := r.store.List(at.path)
	// The Store may keep what it answers.
	return at, append([]Entry(nil), stored...), err
}

// Failure is the first error that was not about the repository's content: the
// Store itself could not answer. What was rendered then means nothing.
func (v *View) Failure() error { return v.failure }

// Reads is what was asked so far, and answered.
func (v *View) Reads() Reads { return newReads(v) }

func (v *View) countQuery(path string) error {
	if v.queries++; v.queries > v.limits.Files {
		return refusef(path, "is one question too many: more than %d files and folders are read", v.limits.Files)
	}
	return nil
}

// record keeps an answer. A Store that fails has given none.
func (v *View) record(asked query, inside bool, text string, err error) {
	if err != nil && !isContentError(err) {
		v.fail(err)
		return
	}
	v.results[asked] = result{text: text, inside: inside}
}

func (v *View) fail(err error) {
	if v.failure == nil && !isContentError(err) {
		v.failure = err
	}
}

// isContentError reports whether an error tells something about the content.
func isContentError(err error) bool {
	var refusal *Refusal
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, &refusal)
}

// readable refuses what is no file.
func readable(at place) error {
	switch at.entry.Kind {
	case File:
		return nil
	case Submodule:
		return submoduleRefusal(at.path)
	case Folder:
		return refusef(at.path, "is a folder, not a file")
	}
	return refusef(at.path, "is a device or a pipe, not a file")
}

// The answers as text. Those to be compared are built by the same functions.

func kindResult(at place, err error) string {
	if err != nil {
		return errorResult(err)
	}
	return string(at.entry.Kind)
}

func contentResult(at place, err error) string {
	if err != nil {
		return errorResult(err)
	}
	return at.entry.Hash
}

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

// errorResult is the same for whatever is missing: where a path ends is not
// what was asked.
func errorResult(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	return "! " + err.Error()
}
