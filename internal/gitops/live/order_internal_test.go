package live

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/must"
)

// history is what an API server would have: objects, and what happened to them.
type history struct {
	version int
	objects map[string]*record
	events  []happened
	notes   []*unstructured.Unstructured
	// noted are the newest versions that were noted.
	noted map[string]int
	// relist is a list that the API server has made and that has not come yet.
	relist func(*feed) error
	// ended are the versions at which an object was deleted or lost its label.
	ended map[string][]int
}

type happened struct {
	deleted bool
	object  *record
}

func (h *history) newRecord(name, app string) *record {
	r := &record{app: app}
	r.APIVersion, r.Kind, r.Name = "v1", "ConfigMap", name
	r.UID, r.ResourceVersion = types.UID(name), strconv.Itoa(h.version)
	r.raw = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"uid":%q,"resourceVersion":%q,"labels":{%q:%q}}}`,
		name, name, r.ResourceVersion, tracking.Label, app)
	return r
}

// write changes an object: it gets a label, another one, or none, or it goes.
func (h *history) write(random *rand.Rand) {
	h.version++
	name := string(rune('a' + random.IntN(3)))
	app := []string{"", "shop", "bank"}[random.IntN(3)]
	before := h.objects[name]
	now := h.newRecord(name, app)
	switch {
	case app == "" && before == nil:
		return
	case app == "":
		delete(h.objects, name)
		last := *before
		last.ResourceVersion = now.ResourceVersion
		h.events = append(h.events, happened{true, &last})
		h.ended[name] = append(h.ended[name], h.version)
		if random.IntN(2) == 0 {
			return // it was deleted; otherwise it lost its label
		}
	default:
		h.objects[name] = now
		h.events = append(h.events, happened{false, now})
	}
	note := (&Object{packed: pack(now.raw)}).Unstructured()
	if app == "" {
		note.SetLabels(nil)
	}
	h.notes = append(h.notes, note)
}

func (h *history) list() []any {
	var all []any
	for _, object := range h.objects {
		all = append(all, object)
	}
	return all
}

// endedAfter reports whether an object went after a version.
func (h *history) endedAfter(name string, version int) bool {
	return slices.ContainsFunc(h.ended[name], func(at int) bool { return at > version })
}

// newFeed makes a feed without an API server.
func newFeed() (*Cache, *feed) {
	c := &Cache{
		pace: defaultPace(), objects: map[tracking.Key]*holder{}, apps: map[string][]*holder{}, others: map[tracking.Key]*Object{},
		feeds: map[feedName]*feed{}, options: Options{Changed: func(string, tracking.Key) {}},
	}
	name := feedName{kind: schema.GroupKind{Kind: "ConfigMap"}}
	f := &feed{cache: c, name: name, synced: make(chan struct{}), ended: make(chan struct{}), stop: func() {}}
	c.feeds[name] = f
	c.ctx = context.Background()
	return c, f
}

// However late events, lists and notes come, and in whatever order the notes do:
// what was noted is never replaced by something older, and in the end the cache
// has what the API server has.
func TestEventsAndNotesInAnyOrder(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 1))
		c, f := newFeed()
		h := &history{version: 100, objects: map[string]*record{}, ended: map[string][]int{}, noted: map[string]int{}}
		for range 40 {
			h.step(t, c, f, random)
			h.look(t, c, seed)
		}
		for h.relist != nil || len(h.events) > 0 || len(h.notes) > 0 || !f.isSynced() {
			if h.relist == nil && !f.isSynced() {
				h.makeList()
			}
			h.arrive(t, f)
			h.note(c, random)
			h.look(t, c, seed)
		}
		h.compare(t, c, seed)
		if t.Failed() {
			return
		}
	}
}

func (h *history) step(t *testing.T, c *Cache, f *feed, random *rand.Rand) {
	switch random.IntN(9) {
	case 0, 1, 2:
		h.write(random)
	case 3, 4, 5:
		h.arrive(t, f)
	case 6, 7:
		h.note(c, random)
	case 8:
		if h.relist == nil && random.IntN(2) == 0 {
			h.makeList()
		}
	}
}

// makeList ends the watch: all is listed as it is now, and comes later.
func (h *history) makeList() {
	all, version := h.list(), strconv.Itoa(h.version)
	h.events = nil
	h.relist = func(f *feed) error { return f.Replace(all, version) }
}

// arrive delivers the list that is under way, or the next event.
func (h *history) arrive(t *testing.T, f *feed) {
	if list := h.relist; list != nil {
		h.relist = nil
		must.Do(t, list(f))
		return
	}
	h.deliver(t, f, 1)
}

func (h *history) deliver(t *testing.T, f *feed, count int) {
	for range count {
		if len(h.events) == 0 || !f.isSynced() {
			return
		}
		event := h.events[0]
		h.events = h.events[1:]
		deliver := f.Update
		if event.deleted {
			deliver = f.Delete
		}
		must.Do(t, deliver(event.object))
	}
}

// note notes one of the responses that are still outstanding.
func (h *history) note(c *Cache, random *rand.Rand) {
	if len(h.notes) == 0 {
		return
	}
	at := random.IntN(len(h.notes))
	note := h.notes[at]
	h.notes = append(h.notes[:at:at], h.notes[at+1:]...)
	c.Note(note)
	version, _ := strconv.Atoi(note.GetResourceVersion())
	h.noted[note.GetName()] = max(h.noted[note.GetName()], version)
}

// look looks whether what is seen is at least as new as what was noted.
func (h *history) look(t *testing.T, c *Cache, seed uint64) {
	for name, version := range h.noted {
		is := c.Get(tracking.Key{Kind: "ConfigMap", Name: name})
		switch {
		case is == nil && !h.endedAfter(name, version-1):
			t.Errorf("seed %d: %s was noted at %d, and is not there", seed, name, version)
		case is != nil && newer(strconv.Itoa(version), is.ResourceVersion):
			t.Errorf("seed %d: %s was noted at %d, and is seen at %s", seed, name, version, is.ResourceVersion)
		}
	}
}

func (h *history) compare(t *testing.T, c *Cache, seed uint64) {
	for name, want := range h.objects {
		is := c.Get(tracking.Key{Kind: "ConfigMap", Name: name})
		if is == nil || is.ResourceVersion != want.ResourceVersion || is.App != want.app {
			t.Errorf("seed %d: %s is %+v, want version %s of %s", seed, name, is, want.ResourceVersion, want.app)
		}
	}
	if len(c.objects) != len(h.objects) {
		t.Errorf("seed %d: there are %d objects, want %d", seed, len(c.objects), len(h.objects))
	}
	listed := 0
	for app, holders := range c.apps {
		for _, holder := range holders {
			if listed++; holder.App != app {
				t.Errorf("seed %d: %s is listed under %s", seed, holder.Key, app)
			}
		}
	}
	if listed != len(c.objects) {
		t.Errorf("seed %d: %d objects are listed by label, of %d", seed, listed, len(c.objects))
	}
}

// An API server that was restored from a backup has the last word, though its
// versions are older.
func TestRestoredServer(t *testing.T) {
	c, f := newFeed()
	h := &history{version: 900}
	newest := h.newRecord("a", "shop")
	must.Do(t, f.Replace([]any{newest, h.newRecord("b", "shop")}, "900"))
	h.version = 500
	must.Do(t, f.Replace([]any{h.newRecord("a", "bank")}, "510"))
	is := c.Get(tracking.Key{Kind: "ConfigMap", Name: "a"})
	if is == nil || is.App != "bank" || len(c.objects) != 1 {
		t.Errorf("got %+v of %d, want what was restored", is, len(c.objects))
	}
}

// What is gone is remembered for a while, and not without end.
func TestLastIsBounded(t *testing.T) {
	c, f := newFeed()
	h := &history{version: 1}
	_ = f.Replace(nil, "1")
	for i := range maxTombstones + 10 {
		h.version++
		r := h.newRecord(fmt.Sprintf("n%d", i), "shop")
		_ = f.Update(r)
		h.version++
		end := *r
		end.ResourceVersion = strconv.Itoa(h.version)
		_ = f.Delete(&end)
	}
	last := func(i int) *Object { return c.Last(tracking.Key{Kind: "ConfigMap", Name: fmt.Sprintf("n%d", i)}) }
	if last(0) != nil || last(maxTombstones+9) == nil || len(c.gone.of) != maxTombstones {
		t.Errorf("%d are remembered, the first: %v", len(c.gone.of), last(0))
	}
}
