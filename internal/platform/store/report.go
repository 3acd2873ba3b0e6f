package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
)

// Cursor is the position up to which the reports of a runtime are stored.
type Cursor struct {
	RuntimeID, Stream string
	Stored            int64 // number of the last stored change
	Mark              int64 // counts resyncs
	Resyncing         bool  // a resync is incomplete, so stored rows may be stale

	// Gap is only set in the result of ApplyReport: changes are missing
	// before the first one that was not stored. The runtime must start a
	// resync.
	Gap bool
}

// ReportChange is one numbered change of a report. Exactly one of the other
// fields is set.
type ReportChange struct {
	Number      int64
	Application *Application    // runtime, account and mark are set by ApplyReport
	Deleted     *ApplicationRef // a deleted application
	ResyncBegin bool            // the following changes are the complete list
	ResyncEnd   bool            // applications not named since ResyncBegin are deleted
}

// MaxReportChanges bounds the changes of one report.
const MaxReportChanges = 5000

// ApplyReport stores changes in one transaction, each exactly once. Numbers
// increase by one within a stream; numbers that are already stored are
// ignored, so a report can be retried. A stream starts with a resync, and a
// resync may skip numbers. At any other missing number ApplyReport stops and
// returns a cursor with Gap; the changes before it are stored.
func (s *Store) ApplyReport(ctx context.Context, runtimeID, stream string, changes []ReportChange) (Cursor, error) {
	if err := checkReport(stream, changes); err != nil {
		return Cursor{}, err
	}
	var cursor Cursor
	err := s.write(ctx, func(c *call) error {
		runtime, err := runtimeByID(c, runtimeID)
		if err != nil {
			return err
		}
		// The cursor is read in the transaction, so concurrent reports of one
		// runtime are serialized.
		before, err := cursorOf(c, runtimeID)
		if err != nil {
			return err
		}
		r := &report{call: c, runtime: runtime, cursor: before, stream: stream}
		for _, change := range changes {
			if err := r.apply(change); err != nil {
				return err
			}
			// The changes before the gap are stored; the agent continues with
			// a resync.
			if r.cursor.Gap {
				break
			}
		}
		cursor = r.cursor
		return r.finish(before)
	})
	if err != nil {
		return Cursor{}, err
	}
	if cursor.Stream != stream {
		// This stream has not started; numbers of the previous stream are
		// meaningless.
		cursor.Stream, cursor.Stored = stream, 0
	}
	return cursor, nil
}

// checkReport validates the whole report before the transaction starts.
func checkReport(stream string, changes []ReportChange) error {
	if stream == "" || len(stream) > maxName {
		return invalid("a report needs the name of its stream, of at most %d bytes", maxName)
	}
	if len(changes) > MaxReportChanges {
		return invalid("a report has at most %d changes, not %d", MaxReportChanges, len(changes))
	}
	for _, change := range changes {
		if err := change.check(); err != nil {
			return err
		}
	}
	return nil
}

// check validates one change: exactly one kind, a number, and bounded sizes.
func (r ReportChange) check() error {
	set := 0
	for _, is := range []bool{r.Application != nil, r.Deleted != nil, r.ResyncBegin, r.ResyncEnd} {
		if is {
			set++
		}
	}
	if set != 1 || r.Number < 1 {
		return invalid("change %d of the report must have exactly one kind of change, and a number from 1", r.Number)
	}
	if r.Application == nil {
		return nil
	}
	a := r.Application
	if len(a.Syncs) > MaxSyncs {
		return invalid("change %d of the report has %d syncs; at most %d are stored", r.Number, len(a.Syncs), MaxSyncs)
	}
	if a.Name == "" || len(a.State) > MaxApplicationState {
		return invalid("change %d of the report: application %q needs a name, and at most %d bytes of state, not %d", r.Number, a.Name, MaxApplicationState, len(a.State))
	}
	for _, text := range []string{a.Namespace, a.Name, a.UID, a.Sync, a.Health, a.Cluster, a.DestinationNamespace} {
		if len(text) > maxName {
			return invalid("change %d of the report has a name of %d bytes; at most %d are stored", r.Number, len(text), maxName)
		}
	}
	size := 0
	for label, value := range a.Labels {
		size += len(label) + len(value)
	}
	if size > maxLabelText {
		return invalid("change %d of the report has %d bytes of labels; at most %d are stored", r.Number, size, maxLabelText)
	}
	return nil
}

// report is the state of one ApplyReport.
type report struct {
	call    *call
	runtime Runtime
	cursor  Cursor
	stream  string
}

// apply stores one change or sets Gap.
func (r *report) apply(change ReportChange) error {
	known := r.cursor.Stream == r.stream
	switch {
	// A retried report repeats stored numbers.
	case known && change.Number <= r.cursor.Stored:
		return nil // a duplicate
	// A resync starts a stream, or repairs one, so it may skip numbers. The
	// new mark distinguishes rows that it names.
	case change.ResyncBegin:
		r.cursor.Stream, r.cursor.Resyncing = r.stream, true
		r.cursor.Mark++
	case !known || change.Number > r.cursor.Stored+1:
		r.cursor.Gap = true
		return nil
	}
	r.cursor.Stored = change.Number
	switch {
	case change.Application != nil:
		return r.put(*change.Application)
	case change.Deleted != nil:
		return r.remove(*change.Deleted)
	case change.ResyncEnd && r.cursor.Resyncing:
		r.cursor.Resyncing = false
		return r.sweep()
	}
	return nil
}

// put stores an application with the current mark.
func (r *report) put(a Application) error {
	r.announced(a.Namespace, a.Name)
	// The labels are compared in their encoded form, whose map keys are
	// sorted.
	labels, digest := jsonText(a.Labels), syncsDigest(a.Syncs)
	type stored struct{ labels, digest string }
	before, err := queryAll(r.call, func(w row) (s stored, err error) { return s, w.Scan(&s.labels, &s.digest) },
		"SELECT labels, syncs_digest FROM applications WHERE runtime_id = $1 AND namespace = $2 AND name = $3", r.runtime.ID, a.Namespace, a.Name)
	if err != nil {
		return err
	}
	// The digest only saves queries: a sync that is recorded twice is one row.
	if digest != "" && (len(before) == 0 || before[0].digest != digest) {
		if err := r.recordSyncs(a); err != nil {
			return err
		}
	}
	_, err = r.call.exec(`INSERT INTO applications (`+applicationColumns+`, syncs_digest)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
		ON CONFLICT (runtime_id, namespace, name) DO UPDATE SET uid = excluded.uid, sync = excluded.sync, health = excluded.health,
			cluster = excluded.cluster, destination_namespace = excluded.destination_namespace, seen_at = excluded.seen_at,
			mark = excluded.mark, labels = excluded.labels, state = excluded.state, syncs_digest = excluded.syncs_digest`,
		r.runtime.ID, r.runtime.AccountID, a.Namespace, a.Name, a.UID, a.Sync, a.Health, a.Cluster, a.DestinationNamespace,
		micros(a.SeenAt), r.cursor.Mark, labels, blob(a.State), digest)
	if err != nil || len(before) == 1 && before[0].labels == labels {
		return err // most reports do not change labels
	}
	return r.label(a, len(before) == 1)
}

// label updates the label index of an application.
func (r *report) label(a Application, again bool) error {
	if again {
		if _, err := r.call.exec("DELETE FROM application_labels WHERE runtime_id = $1 AND namespace = $2 AND name = $3", r.runtime.ID, a.Namespace, a.Name); err != nil {
			return err
		}
	}
	// Only the first MaxLabels in sorted order are indexed, so the choice is
	// deterministic.
	names := slices.Sorted(maps.Keys(a.Labels))
	var values condition
	for _, name := range names[:min(len(names), MaxLabels)] {
		values.add("(?, ?, ?, ?, ?, ?)", r.runtime.ID, r.runtime.AccountID, a.Namespace, a.Name, name, a.Labels[name])
	}
	if len(values.parts) == 0 {
		return nil
	}
	_, err := r.call.exec(`INSERT INTO application_labels (runtime_id, account_id, namespace, name, label, value) VALUES `+
		strings.Join(values.parts, ", ")+` ON CONFLICT (runtime_id, namespace, name, label) DO NOTHING`, values.args...)
	return err
}

// remove deletes an application. A different UID is a newer application with
// the same name, which stays.
func (r *report) remove(ref ApplicationRef) error {
	var where condition
	where.add("runtime_id = ?", r.runtime.ID)
	where.add("namespace = ?", ref.Namespace)
	where.add("name = ?", ref.Name)
	if ref.UID != "" {
		where.add("(uid = ? OR uid = '')", ref.UID)
	}
	removed, err := r.call.exec("DELETE FROM applications"+where.where(), where.args...)
	if removed > 0 {
		r.announced(ref.Namespace, ref.Name)
	}
	return err
}

// sweep deletes the applications that the resync did not name: their mark is
// older.
func (r *report) sweep() error {
	gone, err := queryAll(r.call, func(w row) (ref ApplicationRef, err error) { return ref, w.Scan(&ref.Namespace, &ref.Name) },
		"SELECT namespace, name FROM applications WHERE runtime_id = $1 AND mark < $2", r.runtime.ID, r.cursor.Mark)
	if err != nil {
		return err
	}
	for _, ref := range gone {
		r.announced(ref.Namespace, ref.Name)
	}
	_, err = r.call.exec("DELETE FROM applications WHERE runtime_id = $1 AND mark < $2", r.runtime.ID, r.cursor.Mark)
	return err
}

// announced queues the change of one application.
func (r *report) announced(namespace, name string) {
	r.call.changed(Change{Kind: ChangeApplication, AccountID: r.runtime.AccountID, ID: r.runtime.ID, Namespace: namespace, Name: name})
}

// finish stores the cursor.
func (r *report) finish(before Cursor) error {
	after := r.cursor
	after.Gap = false
	if after == before {
		return nil
	}
	if after.Resyncing != before.Resyncing {
		// Subscribers show with the runtime whether its applications are
		// stale.
		r.call.changed(Change{Kind: ChangeRuntime, AccountID: r.runtime.AccountID, ID: r.runtime.ID})
	}
	_, err := r.call.exec(`INSERT INTO report_cursors (runtime_id, stream, stored, mark, resyncing) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (runtime_id) DO UPDATE SET stream = excluded.stream, stored = excluded.stored, mark = excluded.mark, resyncing = excluded.resyncing`,
		r.runtime.ID, after.Stream, after.Stored, after.Mark, after.Resyncing)
	return err
}

// Cursor returns the report position of a runtime. Its stream is empty for a
// runtime without reports.
func (s *Store) Cursor(ctx context.Context, runtimeID string) (Cursor, error) {
	return readValue(ctx, s, func(c *call) (Cursor, error) { return cursorOf(c, runtimeID) })
}

// cursorOf returns the cursor of a runtime, or an empty one.
func cursorOf(c *call, runtimeID string) (Cursor, error) {
	scan := func(r row) (n Cursor, err error) {
		return n, r.Scan(&n.RuntimeID, &n.Stream, &n.Stored, &n.Mark, &n.Resyncing)
	}
	cursor, err := queryOne(c, scan, "SELECT runtime_id, stream, stored, mark, resyncing FROM report_cursors WHERE runtime_id = $1", runtimeID)
	if errors.Is(err, ErrNotFound) {
		return Cursor{RuntimeID: runtimeID}, nil
	}
	return cursor, err
}
