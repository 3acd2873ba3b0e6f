package appset

import (
	"encoding/json"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/webhook"
)

// store caches the ApplicationSets, and the compared part of the Applications
// they created. It is safe for concurrent use.
type store struct {
	mu   sync.Mutex
	sets map[types.NamespacedName]*setState
	// records are the Applications whose controller is an ApplicationSet.
	records map[types.NamespacedName]*record
	// bySet indexes their names by the UID of the set.
	bySet map[types.UID]map[string]struct{}
	// deleted are the UIDs of recently deleted Applications: the response to a
	// request that was in flight must not bring them back.
	deleted map[types.UID]struct{}
}

// setState is one ApplicationSet.
type setState struct {
	object *unstructured.Unstructured
	// due means that it must be generated, and not only compared.
	due bool
	// next is when the next generation is due; zero for never.
	next time.Time
	// desired are the Applications of the last generation; nil if there is
	// none.
	desired map[string]*desired
	// inputs is what its generators read.
	inputs inputs
	// note is what the last generation left out.
	note string
}

// record is an Application in the cluster.
type record struct {
	uid      types.UID
	version  string
	set      types.UID
	deleting bool
	// body is the compared part as canonical JSON.
	body []byte
	appState
}

// newStore returns an empty store.
func newStore() *store {
	return &store{
		sets: map[types.NamespacedName]*setState{}, records: map[types.NamespacedName]*record{},
		bySet: map[types.UID]map[string]struct{}{}, deleted: map[types.UID]struct{}{},
	}
}

// origin is the source of an object.
type origin int

const (
	// fromWatch events arrive in order and complete.
	fromWatch origin = iota
	// fromWrite is the response to our own request. It can be older than the
	// last event of the watch, or of an object that is already deleted.
	fromWrite
)

// projectsOf is the project that the template of a set names, as it is written
// there.
func (b *store) projectsOf(name types.NamespacedName) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.sets[name]
	if known == nil {
		return nil
	}
	project, _, _ := unstructured.NestedString(known.object.Object, "spec", "template", "spec", "project")
	return []string{project}
}

// putSet stores a set, and reports whether it must be reconciled.
func (b *store) putSet(object *unstructured.Unstructured, from origin) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	entry := b.sets[name]
	if entry == nil || entry.object.GetUID() != object.GetUID() {
		// Only the watch creates entries: a response about a set that is gone
		// must not.
		if from == fromWatch {
			b.sets[name] = &setState{object: object, due: true}
		}
		return from == fromWatch
	}
	if isOlder(object.GetResourceVersion(), entry.object.GetResourceVersion()) {
		return false
	}
	before := entry.object
	entry.object = object
	// Our own writes of the status change none of these. A refresh counts
	// when it is added, and not when it is removed.
	changed := before.GetGeneration() != object.GetGeneration() || isDeleting(before) != isDeleting(object) ||
		object.GetAnnotations()[allowEmptyAnnotation] != before.GetAnnotations()[allowEmptyAnnotation] ||
		object.GetAnnotations()[PendingAnnotation] != before.GetAnnotations()[PendingAnnotation] ||
		object.GetAnnotations()[forksAnnotation] != before.GetAnnotations()[forksAnnotation] ||
		object.GetAnnotations()[limitAnnotation] != before.GetAnnotations()[limitAnnotation] ||
		object.GetAnnotations()[refreshAnnotation] != "" && before.GetAnnotations()[refreshAnnotation] == ""
	entry.due = entry.due || changed
	return changed
}

// dropSet removes a deleted set.
func (b *store) dropSet(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sets, name)
}

// isRolling reports whether the syncs of a set start step by step.
func (b *store) isRolling(name types.NamespacedName) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	entry := b.sets[name]
	if entry == nil {
		return false
	}
	kind, _, _ := unstructured.NestedString(entry.object.Object, "spec", "strategy", "type")
	return kind == "RollingSync"
}

// due requests a generation.
func (b *store) due(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if entry := b.sets[name]; entry != nil {
		entry.due = true
	}
}

// snapshot is a set at the start of a reconcile run, which owns it.
type snapshot struct {
	object  *unstructured.Unstructured
	due     bool
	next    time.Time
	desired map[string]*desired
}

// take starts a reconcile run and clears the request for a generation: one that
// arrives during the run is kept.
func (b *store) take(name types.NamespacedName) (snapshot, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	entry := b.sets[name]
	if entry == nil {
		return snapshot{}, false
	}
	// The snapshot is read without the lock: its object is never changed in
	// place.
	taken := snapshot{object: entry.object, due: entry.due, next: entry.next, desired: entry.desired}
	// The interval is over, even if an event caused this run.
	if !entry.next.IsZero() && !time.Now().Before(entry.next) {
		taken.due = true
	}
	entry.due = false
	return taken, true
}

// plan stores when the next generation is due.
func (b *store) plan(name types.NamespacedName, next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if entry := b.sets[name]; entry != nil {
		entry.next = next
	}
}

// generated stores the result of a generation. After an error the previous
// result is dropped: nothing is written until there is a new one.
func (b *store) generated(name types.NamespacedName, uid types.UID, result map[string]*desired) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// The set may have been created again during the generation.
	if entry := b.sets[name]; entry != nil && entry.object.GetUID() == uid {
		entry.desired = result
	}
}

// setInputs stores what the generators of a set read, so that a push or a new
// cluster finds it.
func (b *store) setInputs(name types.NamespacedName, read inputs) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if entry := b.sets[name]; entry != nil {
		entry.inputs = read
	}
}

// setNote stores what a generation left out.
func (b *store) setNote(name types.NamespacedName, note string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if entry := b.sets[name]; entry != nil {
		entry.note = note
	}
}

// noteOf returns what the last generation left out.
func (b *store) noteOf(name types.NamespacedName) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if entry := b.sets[name]; entry != nil {
		return entry.note
	}
	return ""
}

// setsReading returns the sets that read what was pushed or changed.
func (b *store) setsReading(push webhook.Push) []types.NamespacedName {
	return b.setsWhere(func(entry *setState) bool { return entry.inputs.concerns(push) })
}

// listsPulls reports whether a set lists pull requests.
func (b *store) listsPulls(name types.NamespacedName) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	entry := b.sets[name]
	return entry != nil && len(entry.inputs.pulls) > 0
}

// setsOfClusters returns the sets that list clusters.
func (b *store) setsOfClusters() []types.NamespacedName {
	return b.setsWhere(func(entry *setState) bool { return entry.inputs.clusters })
}

// setsWhere returns the sets that match.
func (b *store) setsWhere(fits func(*setState) bool) []types.NamespacedName {
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

// change is what changed in an Application.
type change int

const (
	nothingNew change = iota
	// stateNew means that only that of its status changed which a rollout reads.
	stateNew
	// healthNew means that the health or the sync status changed.
	healthNew
	// contentNew means that the compared part changed.
	contentNew
)

// putApplication stores an Application. It returns the sets that it belongs and
// belonged to, and what changed.
func (b *store) putApplication(object *unstructured.Unstructured, from origin) ([]types.NamespacedName, change) {
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	made := newRecord(object)
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.records[name]
	// The delete event came before the response to an earlier request.
	if _, deleted := b.deleted[object.GetUID()]; deleted && from == fromWrite {
		return nil, nothingNew
	}
	// The watch was faster than the response.
	if before != nil && before.uid == object.GetUID() && isOlder(object.GetResourceVersion(), before.version) {
		return nil, nothingNew
	}
	b.index(name, before, made)
	what := contentNew
	switch {
	case before == nil && made == nil:
		return nil, nothingNew
	// It came under or left the control of a set.
	case before == nil || made == nil:
	case before.uid == made.uid && before.set == made.set && before.deleting == made.deleting && string(before.body) == string(made.body):
		what = nothingNew
		if before.sync != made.sync || before.health != made.health {
			what = healthNew
		} else if before.appState != made.appState {
			what = stateNew
		}
	}
	return b.setsOf(name.Namespace, before, made), what
}

// dropApplication removes a deleted Application, and returns the set it
// belonged to.
func (b *store) dropApplication(name types.NamespacedName) []types.NamespacedName {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.records[name]
	if before != nil {
		// Dropping all of them is safe: they only matter for requests in
		// flight.
		if len(b.deleted) >= maxDeleted {
			clear(b.deleted)
		}
		b.deleted[before.uid] = struct{}{}
	}
	b.index(name, before, nil)
	return b.setsOf(name.Namespace, before)
}

// maxDeleted bounds the remembered deletions. Responses arrive within moments,
// so that older ones are not needed.
const maxDeleted = 10000

// isOlder compares versions of one object. Versions that cannot be compared
// count as newer.
func isOlder(version, known string) bool {
	order, err := resourceversion.CompareResourceVersion(version, known)
	return err == nil && order < 0
}

// index moves a name between the sets of its old and its new record.
func (b *store) index(name types.NamespacedName, before, after *record) {
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

// setsOf returns the sets of some records.
func (b *store) setsOf(namespace string, records ...*record) []types.NamespacedName {
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

// owned returns the Applications of a set by name.
func (b *store) owned(set *unstructured.Unstructured) map[string]record {
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

// newRecord returns the record of an Application; nil if no set created it.
func newRecord(object *unstructured.Unstructured) *record {
	owner := metav1.GetControllerOf(object)
	// Applications that users created are not cached at all, to save memory.
	if owner == nil || owner.Kind != v1alpha1.KindApplicationSet {
		return nil
	}
	made := &record{
		uid: object.GetUID(), version: object.GetResourceVersion(), set: owner.UID, deleting: isDeleting(object), appState: newAppState(object.Object),
	}
	// The content comes from the API server, so that it can always be encoded.
	made.body, _ = json.Marshal(contentOf(object.Object))
	return made
}

// isDeleting reports whether an object is being deleted.
func isDeleting(object *unstructured.Unstructured) bool { return object.GetDeletionTimestamp() != nil }
