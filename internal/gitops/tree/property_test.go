package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// randomTree is files and links that are likely to meet each other.
type randomTree struct {
	files, links map[string]string
}

func (r randomTree) store() Store { return newMemory(r.files, r.links) }

func (r randomTree) clone() randomTree {
	return randomTree{files: maps.Clone(r.files), links: maps.Clone(r.links)}
}

func randomPath(random *rand.Rand) string {
	parts := make([]string, 1+random.IntN(3))
	for i := range parts {
		parts[i] = string(rune('a' + random.IntN(4)))
	}
	return strings.Join(parts, "/")
}

func randomTarget(random *rand.Rand) string {
	target := strings.Repeat("../", random.IntN(3)) + randomPath(random)
	if random.IntN(10) == 0 {
		return "/" + target
	}
	return target
}

// change makes one random change.
func (r randomTree) change(random *rand.Rand) {
	name := randomPath(random)
	switch random.IntN(5) {
	case 0:
		delete(r.files, name)
		delete(r.links, name)
	case 1:
		delete(r.files, name)
		r.links[name] = randomTarget(random)
	default:
		delete(r.links, name)
		r.files[name] = fmt.Sprint(random.IntN(3))
	}
}

// ask makes one random query and returns the result as a reader sees it.
func ask(view *View, path string, about aspect) string {
	switch about {
	case aboutListing:
		entries, err := view.List(path)
		return fmt.Sprint(entries, seen(err))
	case aboutContent:
		content, err := view.Read(path)
		return fmt.Sprintf("%q %s", content, seen(err))
	}
	entry, err := view.Stat(path)
	// The name is that of where a link leads, which no reader may depend on.
	return fmt.Sprint(entry.Kind, seen(err))
}

func seen(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return "missing"
	}
	return err.Error()
}

// Same is true if and only if every query has the same result in the other
// revision, with and without the short way by the hash of a folder.
func TestSameIsExact(t *testing.T) {
	equal, different := 0, 0
	for seed := range uint64(8000) {
		random := rand.New(rand.NewPCG(seed, 1))
		before := randomTree{files: map[string]string{}, links: map[string]string{}}
		for range 12 {
			before.change(random)
		}
		after := before.clone()
		for range random.IntN(4) {
			after.change(random)
		}
		limits := Limits{FileBytes: 10, TotalBytes: 1000, Files: 100, Links: 3}
		first, second := NewView(before.store(), limits), NewView(after.store(), limits)
		if random.IntN(2) == 0 {
			first.Within(randomPath(random))
		} else if random.IntN(4) == 0 {
			first.Within("")
		}
		same := true
		var asked []string
		for range 1 + random.IntN(4) {
			path, about := randomPath(random), []aspect{aboutKind, aboutContent, aboutListing}[random.IntN(3)]
			if random.IntN(5) == 0 {
				path += "/../" + randomPath(random)
			}
			one, other := ask(first, path, about), ask(second, path, about)
			same = same && one == other
			asked = append(asked, fmt.Sprintf("%c %s: %s, %s", about, path, one, other))
		}
		if got := first.Reads().Same(after.store()); got != same {
			t.Fatalf("seed %d: Same is %v, want %v\n%s\nbefore %v\nafter %v", seed, got, same, strings.Join(asked, "\n"), before, after)
		}
		if got := first.Reads().Hash() == second.Reads().Hash(); got != same {
			t.Fatalf("seed %d: the hashes are equal: %v, want %v", seed, got, same)
		}
		if same {
			equal++
		} else {
			different++
		}
	}
	if equal < 500 || different < 500 {
		t.Errorf("%d trees gave the same answers and %d others: that shows little", equal, different)
	}
}

// The hash of a folder is the same exactly when all below it is.
func TestFolderHash(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 2))
		one := randomTree{files: map[string]string{}, links: map[string]string{}}
		for range 8 {
			one.change(random)
		}
		other := one.clone()
		for range random.IntN(3) {
			other.change(random)
		}
		a, b := one.store().(*memory), other.store().(*memory)
		equal := slices.Equal(slices.Sorted(maps.Keys(a.nodes)), slices.Sorted(maps.Keys(b.nodes)))
		for name, node := range a.nodes {
			match := b.nodes[name]
			equal = equal && match != nil && node.entry.Kind == match.entry.Kind && node.content == match.content
		}
		if got := a.nodes[""].entry.Hash == b.nodes[""].entry.Hash; got != equal {
			t.Fatalf("seed %d: the hashes are equal: %v, want %v\n%v\n%v", seed, got, equal, one, other)
		}
	}
}
