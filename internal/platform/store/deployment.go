package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sync is a complete sync of an application that ended, as a runtime reports
// it. Reports repeat the last syncs; ApplyReport stores each one that is a
// deployment exactly once.
type Sync struct {
	Revision string
	// PreviousRevision is that of the sync before; empty if it is not known.
	PreviousRevision      string
	StartedAt, FinishedAt time.Time
	CommittedAt           time.Time // zero if it is not known
	Succeeded, Automated  bool
	Initiator, Message    string
}

// Deployment is a sync that changed the revision of an application, or failed
// to.
type Deployment struct {
	ID, AccountID, RuntimeID, Namespace, Name, UID, Project string
	Sync
	// GoingBack is set if an older revision was deployed again.
	GoingBack bool
	// RolledBackAt is when a later deployment went back behind this one.
	RolledBackAt time.Time
}

// Limits of deployments.
const (
	MaxSyncs = 50
	// MaxDeployments bounds the deployments that figures are computed of.
	MaxDeployments = 100_000
	maxSyncMessage = 1 << 10
)

// DeploymentFilter selects deployments. Empty fields match everything.
type DeploymentFilter struct {
	RuntimeID, Project, Namespace, Name string
	Since, Until                        time.Time // of the end; a half-open interval
}

const deploymentColumns = `id, account_id, runtime_id, namespace, name, uid, project, revision, previous_revision, initiator, message,
	committed_at, started_at, finished_at, rolled_back_at, succeeded, going_back, automated`

func scanDeployment(r row) (d Deployment, err error) {
	return d, r.Scan(&d.ID, &d.AccountID, &d.RuntimeID, &d.Namespace, &d.Name, &d.UID, &d.Project, &d.Revision, &d.PreviousRevision, &d.Initiator, &d.Message,
		timeColumn{&d.CommittedAt}, timeColumn{&d.StartedAt}, timeColumn{&d.FinishedAt}, timeColumn{&d.RolledBackAt}, &d.Succeeded, &d.GoingBack, &d.Automated)
}

// syncsDigest identifies a list of syncs; empty if there are none. Twelve bytes
// are enough: a collision would delay a row until the next sync.
func syncsDigest(syncs []Sync) string {
	if len(syncs) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(jsonText(syncs)))
	return hex.EncodeToString(sum[:12])
}

// deploymentID derives the ID of a deployment. An application that was deleted
// and created again has another UID. Two syncs of one application do not start
// at the same time.
func deploymentID(runtimeID string, a Application, sync Sync) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		runtimeID, a.Namespace, a.Name, a.UID, sync.Revision, strconv.FormatInt(micros(sync.StartedAt), 10),
	}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// recordSyncs stores the syncs of an application that are deployments and not
// stored yet, the oldest first: each one depends on those before it. A report
// with many applications is one transaction, so each costs two statements.
func (r *report) recordSyncs(a Application) error {
	past, err := r.pastDeployments(a)
	if err != nil {
		return err
	}
	syncs := slices.Clone(a.Syncs)
	slices.SortStableFunc(syncs, func(x, y Sync) int { return x.FinishedAt.Compare(y.FinishedAt) })
	var added []*Deployment
	for _, sync := range syncs {
		if sync.Revision == "" || sync.StartedAt.IsZero() || sync.FinishedAt.IsZero() {
			continue // an agent of another version; there is nothing to count
		}
		d := &Deployment{
			ID: deploymentID(r.runtime.ID, a, sync), AccountID: r.runtime.AccountID, RuntimeID: r.runtime.ID,
			Namespace: a.Namespace, Name: a.Name, UID: a.UID, Project: a.Project, Sync: sync,
		}
		if known := past.find(d.ID); known != nil {
			// The commit may be found only after the sync was reported.
			if err := r.setCommit(known, sync.CommittedAt); err != nil {
				return err
			}
			continue
		}
		before := past.until(sync.FinishedAt)
		if !before.changes(sync) {
			continue
		}
		if live := before.live(); live != nil {
			d.PreviousRevision = live.Revision
			d.GoingBack = sync.Succeeded && before.goesBack(sync.Revision, live.Revision)
			if err := r.setRolledBack(live, d, slices.Contains(added, live)); err != nil {
				return err
			}
		}
		past = past.with(d)
		added = append(added, d)
	}
	return r.insertDeployments(added)
}

// setCommit completes a stored deployment. A time that is known is not replaced:
// it would change figures that were shown.
func (r *report) setCommit(d *Deployment, at time.Time) error {
	if at.IsZero() || !d.CommittedAt.IsZero() {
		return nil
	}
	_, err := r.call.exec("UPDATE deployments SET committed_at = $1 WHERE id = $2", micros(at), d.ID)
	return err
}

// setRolledBack marks the live deployment if the next one goes back. One that is
// new itself is inserted later.
func (r *report) setRolledBack(live, next *Deployment, isNew bool) error {
	if !next.GoingBack || !live.RolledBackAt.IsZero() {
		return nil
	}
	live.RolledBackAt = next.FinishedAt
	if isNew {
		return nil
	}
	_, err := r.call.exec("UPDATE deployments SET rolled_back_at = $1 WHERE id = $2", micros(live.RolledBackAt), live.ID)
	return err
}

// insertDeployments stores new deployments. One that is too old to be found
// among the past ones may be there already.
func (r *report) insertDeployments(added []*Deployment) error {
	if len(added) == 0 {
		return nil
	}
	var values condition
	for _, d := range added {
		values.add("(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			d.ID, d.AccountID, d.RuntimeID, d.Namespace, d.Name, d.UID, truncate(d.Project, maxName),
			truncate(d.Revision, maxName), truncate(d.PreviousRevision, maxName), truncate(d.Initiator, maxName), truncate(d.Message, maxSyncMessage),
			micros(d.CommittedAt), micros(d.StartedAt), micros(d.FinishedAt), micros(d.RolledBackAt), d.Succeeded, d.GoingBack, d.Automated)
	}
	_, err := r.call.exec("INSERT INTO deployments ("+deploymentColumns+") VALUES "+strings.Join(values.parts, ", ")+" ON CONFLICT (id) DO NOTHING", values.args...)
	return err
}

// pastDeployments are deployments of one application, the newest first.
type pastDeployments []*Deployment

// maxPast is how many deployments back a revision is found again. A status has
// ten syncs by default, so a reported sync is always among them.
const maxPast = 200

// pastDeployments returns the stored ones.
func (r *report) pastDeployments(a Application) (pastDeployments, error) {
	scan := func(w row) (*Deployment, error) {
		d, err := scanDeployment(w)
		return &d, err
	}
	return queryAll(r.call, scan, "SELECT "+deploymentColumns+` FROM deployments
		WHERE runtime_id = $1 AND namespace = $2 AND name = $3 AND uid = $4 ORDER BY finished_at DESC, id LIMIT $5`,
		r.runtime.ID, a.Namespace, a.Name, a.UID, maxPast)
}

// find returns the deployment with an ID; nil if there is none.
func (p pastDeployments) find(id string) *Deployment {
	at := slices.IndexFunc(p, func(d *Deployment) bool { return d.ID == id })
	if at < 0 {
		return nil
	}
	return p[at]
}

// until returns those that ended until a time.
func (p pastDeployments) until(at time.Time) pastDeployments {
	first := slices.IndexFunc(p, func(d *Deployment) bool { return !d.FinishedAt.After(at) })
	if first < 0 {
		return nil
	}
	return p[first:]
}

// with returns the list with one more deployment, before others that ended at
// the same time.
func (p pastDeployments) with(d *Deployment) pastDeployments {
	at := len(p) - len(p.until(d.FinishedAt))
	return slices.Insert(slices.Clone(p), at, d)
}

// live returns the deployment that the application runs; nil if none is known.
func (p pastDeployments) live() *Deployment {
	at := slices.IndexFunc(p, func(d *Deployment) bool { return d.Succeeded })
	if at < 0 {
		return nil
	}
	return p[at]
}

// changes reports whether a sync is a deployment of its own. A sync of the live
// revision repairs objects, and repeated failures of one revision are one.
func (p pastDeployments) changes(sync Sync) bool {
	live := p.live()
	switch {
	case sync.PreviousRevision == sync.Revision, live != nil && live.Revision == sync.Revision:
		return false
	case !sync.Succeeded && len(p) > 0 && !p[0].Succeeded && p[0].Revision == sync.Revision:
		return false
	}
	return true
}

// goesBack reports whether a revision was live before another one was for the
// first time. A revision that is deployed again after a rollback goes forward.
func (p pastDeployments) goesBack(to, from string) bool {
	first := func(revision string) int {
		for i, d := range slices.Backward(p) {
			if d.Succeeded && d.Revision == revision {
				return i
			}
		}
		return -1
	}
	return first(to) > first(from) // the newest has the index 0
}

// Deployments lists deployments of an account, the newest first.
func (s *Store) Deployments(ctx context.Context, accountID string, filter DeploymentFilter, page Page) ([]Deployment, string, error) {
	list := newListID("deployments", accountID, filter)
	query, err := deploymentQuery(list, accountID, filter, page)
	if err != nil {
		return nil, "", err
	}
	return readPage(ctx, s, query, scanDeployment, func(last Deployment) string {
		return list.token(strconv.FormatInt(micros(last.FinishedAt), 10), last.ID)
	})
}

// deploymentQuery builds the query of one page.
func deploymentQuery(list listID, accountID string, filter DeploymentFilter, page Page) (pageQuery, error) {
	where := filter.condition(accountID)
	if err := where.beyond(list, page.Token, "(finished_at, id) <"); err != nil {
		return pageQuery{}, err
	}
	return page.query("SELECT "+deploymentColumns+" FROM deployments", where, "finished_at DESC, id DESC"), nil
}

// NewestDeployments returns up to MaxDeployments of an account, the newest
// first, and whether there are more. It is one query and not pages: figures
// must not mix states of the table before and after a report.
func (s *Store) NewestDeployments(ctx context.Context, accountID string, filter DeploymentFilter) (deployments []Deployment, more bool, err error) {
	where := filter.condition(accountID)
	where.args = append(where.args, MaxDeployments+1)
	deployments, err = readAll(ctx, s, scanDeployment,
		"SELECT "+deploymentColumns+" FROM deployments"+where.where()+" ORDER BY finished_at DESC, id DESC"+where.limit(), where.args...)
	if more = len(deployments) > MaxDeployments; more {
		deployments = deployments[:MaxDeployments]
	}
	return deployments, more, err
}

// condition builds the WHERE clause. The account is always part of it.
func (f DeploymentFilter) condition(accountID string) condition {
	var where condition
	where.add("account_id = ?", accountID)
	where.addText("runtime_id = ?", f.RuntimeID)
	where.addText("project = ?", f.Project)
	where.addText("namespace = ?", f.Namespace)
	where.addText("name = ?", f.Name)
	if !f.Since.IsZero() {
		where.add("finished_at >= ?", micros(f.Since))
	}
	if !f.Until.IsZero() {
		where.add("finished_at < ?", micros(f.Until))
	}
	return where
}

// ExpireDeployments deletes one batch of deployments that ended before a time,
// the oldest first, and reports whether there may be more.
func (s *Store) ExpireDeployments(ctx context.Context, before time.Time) (more bool, err error) {
	n, err := s.exec(ctx, "DELETE FROM deployments WHERE id IN (SELECT id FROM deployments WHERE finished_at < $1 ORDER BY finished_at LIMIT $2)", micros(before), expireBatch)
	return n == expireBatch, err
}
