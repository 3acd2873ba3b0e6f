package appset

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/webhook"
)

// book is what is known of the cluster: the sets, and of the Applications that
// sets have made as much as is compared. It is safe for concurrent use.
type book struct {
	mu   sync.Mutex
	sets map[types.NamespacedName]*setEntry
	// records are Applications whose controller is an ApplicationSet.
	records map[types.NamespacedName]*record
	// bySet are their names, by the set.
	bySet map[types.UID]map[string]struct{}
	// deleted are Applications that were deleted lately: an answer to a request
	// that was under way must not bring them back.
	deleted map[types.UID]struct{}
}

// setEntry is one ApplicationSet.
type setEntry struct {
	object *unstructured.Unstructured
	// due: it is to be generated, and not only compared.
	due bool
	// next is when it is due by itself, zero for never.
	next time.Time
	// desired are the Applications of the last generation, nil if there was none.
	desired map[string]*desired
	// repositories are the addresses that its generators read. One with
	// parameters is empty, and can be any.
	repositories []string
	// clusters: a generator asks for clusters.
	clusters bool
}

// record is an Application in the cluster.
type record struct {
	uid      types.UID
	version  string
	set      types.UID
	deleting bool
	// body has what is compared, as canonical JSON.
	body   []byte
	sync   v1alpha1.SyncStatusCode
	health v1alpha1.HealthCode
}

func newBook() *book {
	return &book{
		sets: map[types.NamespacedName]*setEntry{}, records: map[types.NamespacedName]*record{},
		bySet: map[types.UID]map[string]struct{}{}, deleted: map[types.UID]struct{}{},
	}
}

// origin is where news of an object come from.
type origin int

const (
	// fromWatch: every change comes so, in its order.
	fromWatch origin = iota
	// fromWrite: the answer to our own request. It can be older than what the watch
	// has told already, and of an object that is gone.
	fromWrite
)

// putSet notes a set, and reports whether it has to be looked at.
func (b *book) putSet(object *unstructured.Unstructured, from origin) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	entry := b.sets[name]
	if entry == nil || entry.object.GetUID() != object.GetUID() {
		if from == fromWatch {
			b.sets[name] = &setEntry{object: object, due: true}
		}
		return from == fromWatch
	}
	if isOlder(object.GetResourceVersion(), entry.object.GetResourceVersion()) {
		return false
	}
	before := entry.object
	entry.object = object
	changed := before.GetGeneration() != object.GetGeneration() || isDeleting(before) != isDeleting(object) ||
		object.GetAnnotations()[refreshAnnotation] != "" && before.GetAnnotations()[refreshAnnotation] == ""
	entry.due = entry.due || changed
	return changed
}

func (b *book) dropSet(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sets, name)
}

// due asks for a generation.
func (b *book) due(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if entry := b.sets[name]; entry != nil {
		entry.due = true
	}
}

// snapshot is a set as a pass takes it. The pass owns it.
type snapshot struct {
	object  *unstructured.Unstructured
	due     bool
	next    time.Time
	desired map[string]*desired
}

// take begins a pass.
func (b *book) take(name types.NamespacedName) (snapshot, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	entry := b.sets[name]
	if entry == nil {
		return snapshot{}, false
	}
	taken := snapshot{object: entry.object, due: entry.due, next: entry.next, desired: entry.desired}
	if !entry.next.IsZero() && !time.Now().Before(entry.next) {
		taken.due = true
	}
	entry.due = false
	return taken, true
}

// plan keeps when a set is due by itself.
func (b *book) plan(name types.NamespacedName, next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if entry := b.sets[name]; entry != nil {
		entry.next = next
	}
}

// generated keeps what a generation gave. After an error the result before it is
// forgotten: nothing is done until there is one again.
func (b *book) generated(name types.NamespacedName, uid types.UID, result map[string]*desired) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if entry := b.sets[name]; entry != nil && entry.object.GetUID() == uid {
		entry.desired = result
	}
}

// asks keeps what a set asks for.
func (b *book) asks(name types.NamespacedName, repositories []string, clusters bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if entry := b.sets[name]; entry != nil {
		entry.repositories, entry.clusters = repositories, clusters
	}
}

// reading are the sets that read a repository.
func (b *book) reading(repoURL string) []types.NamespacedName {
	return b.which(func(entry *setEntry) bool {
		return slices.ContainsFunc(entry.repositories, func(used string) bool {
			return used == "" || used == repoURL || webhook.SameRepository(used, repoURL)
		})
	})
}

// ofClusters are the sets that ask for clusters.
func (b *book) ofClusters() []types.NamespacedName {
	return b.which(func(entry *setEntry) bool { return entry.clusters })
}

func (b *book) which(fits func(*setEntry) bool) []types.NamespacedName {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []types.NamespacedName
	for name, entry := range b.sets {
		if fits(entry) {
			names = append(names, name)
		}
	}
	return names
}

// change is what is new about an Application.
type change int

const (
	nothingNew change = iota
	// healthNew: only its status changed.
	healthNew
	// contentNew: what is compared changed.
	contentNew
)

// putApplication notes an Application. It gives the name of the sets that it
// belongs to and belonged to, and what is new.
func (b *book) putApplication(object *unstructured.Unstructured, from origin) ([]types.NamespacedName, change) {
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	made := newRecord(object)
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.records[name]
	if _, deleted := b.deleted[object.GetUID()]; deleted && from == fromWrite {
		return nil, nothingNew
	}
	if before != nil && before.uid == object.GetUID() && isOlder(object.GetResourceVersion(), before.version) {
		return nil, nothingNew
	}
	b.index(name, before, made)
	what := contentNew
	switch {
	case before == nil && made == nil:
		return nil, nothingNew
	case before == nil || made == nil:
	case before.uid == made.uid && before.set == made.set && before.deleting == made.deleting && string(before.body) == string(made.body):
		what = nothingNew
		if before.sync != made.sync || before.health != made.health {
			what = healthNew
		}
	}
	return b.setsOf(name.Namespace, before, made), what
}

// dropApplication forgets an Application, and gives the set it belonged to.
func (b *book) dropApplication(name types.NamespacedName) []types.NamespacedName {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.records[name]
	if before != nil {
		if len(b.deleted) >= maxDeleted {
			clear(b.deleted)
		}
		b.deleted[before.uid] = struct{}{}
	}
	b.index(name, before, nil)
	return b.setsOf(name.Namespace, before)
}

// maxDeleted bounds what is remembered of Applications that are gone. Answers
// come within moments.
const maxDeleted = 10000

// isOlder compares versions of one object.
func isOlder(version, known string) bool {
	order, err := resourceversion.CompareResourceVersion(version, known)
	return err == nil && order < 0
}

func (b *book) index(name types.NamespacedName, before, after *record) {
	if before != nil {
		delete(b.bySet[before.set], name.Name)
		if len(b.bySet[before.set]) == 0 {
			delete(b.bySet, before.set)
		}
		delete(b.records, name)
	}
	if after != nil {
		if b.bySet[after.set] == nil {
			b.bySet[after.set] = map[string]struct{}{}
		}
		b.bySet[after.set][name.Name] = struct{}{}
		b.records[name] = after
	}
}

func (b *book) setsOf(namespace string, records ...*record) []types.NamespacedName {
	var names []types.NamespacedName
	for name, entry := range b.sets {
		for _, record := range records {
			if record != nil && name.Namespace == namespace && entry.object.GetUID() == record.set {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// owned are the Applications of a set.
func (b *book) owned(set *unstructured.Unstructured) map[string]record {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := map[string]record{}
	for name := range b.bySet[set.GetUID()] {
		if known := b.records[types.NamespacedName{Namespace: set.GetNamespace(), Name: name}]; known != nil {
			found[name] = *known
		}
	}
	return found
}

// newRecord is nil for an Application that no set has made.
func newRecord(object *unstructured.Unstructured) *record {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != v1alpha1.KindApplicationSet {
		return nil
	}
	made := &record{uid: object.GetUID(), version: object.GetResourceVersion(), set: owner.UID, deleting: isDeleting(object)}
	made.body, _ = json.Marshal(contentOf(object.Object))
	sync, _, _ := unstructured.NestedString(object.Object, "status", "sync", "status")
	health, _, _ := unstructured.NestedString(object.Object, "status", "health", "status")
	made.sync, made.health = v1alpha1.SyncStatusCode(sync), v1alpha1.HealthCode(health)
	return made
}

func isDeleting(object *unstructured.Unstructured) bool { return object.GetDeletionTimestamp() != nil }
