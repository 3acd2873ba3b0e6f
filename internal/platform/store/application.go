package store

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// Application is the last report of a runtime about one application. The
// columns are those that lists filter by; State has everything.
type Application struct {
	RuntimeID, AccountID, Namespace, Name, UID  string
	Sync, Health, Cluster, DestinationNamespace string
	Labels                                      map[string]string // the first MaxLabels are indexed
	SeenAt                                      time.Time
	State                                       []byte // platformv1.Application; at most MaxApplicationState
	Mark                                        int64  // mark of the last resync that included it

	// Project and Syncs are only set in reports. Syncs are the last ones that
	// ended, at most MaxSyncs.
	Project string
	Syncs   []Sync
}

// Limits of an application.
const (
	MaxApplicationState = 256 << 10
	MaxLabels           = 64
	maxName             = 512
	maxLabelText        = 64 << 10
)

// ApplicationRef names an application of a runtime.
type ApplicationRef struct {
	Namespace, Name string
	UID             string // empty matches any
}

// ApplicationFilter selects applications. Empty fields match everything.
type ApplicationFilter struct {
	RuntimeID, Namespace, DestinationNamespace, Cluster, Sync, Health string
	Query                                                             string            // substring of the name, case-insensitive
	Labels                                                            map[string]string // all must match
}

const applicationColumns = `runtime_id, account_id, namespace, name, uid, sync, health, cluster, destination_namespace, seen_at, mark, labels, state`

func scanApplication(r row) (a Application, err error) {
	return a, r.Scan(&a.RuntimeID, &a.AccountID, &a.Namespace, &a.Name, &a.UID, &a.Sync, &a.Health, &a.Cluster, &a.DestinationNamespace,
		timeColumn{&a.SeenAt}, &a.Mark, jsonColumn{&a.Labels}, blobColumn{&a.State})
}

// Application returns one application.
func (s *Store) Application(ctx context.Context, accountID, runtimeID string, ref ApplicationRef) (Application, error) {
	var where condition
	where.add("account_id = ?", accountID)
	where.add("runtime_id = ?", runtimeID)
	where.add("namespace = ?", ref.Namespace)
	where.add("name = ?", ref.Name)
	where.addText("uid = ?", ref.UID)
	return readOne(ctx, s, scanApplication, "SELECT "+applicationColumns+" FROM applications"+where.where(), where.args...)
}

// Applications lists applications of an account by name, namespace and
// runtime. The total counts all pages; it is read in the same snapshot as the
// page.
func (s *Store) Applications(ctx context.Context, accountID string, filter ApplicationFilter, page Page) (applications []Application, total int, next string, err error) {
	list := newListID("applications", accountID, filter)
	after, err := list.after(page.Token, 3)
	if err != nil {
		return nil, 0, "", err
	}
	if len(filter.Labels) > MaxLabels {
		return nil, 0, "", invalid("at most %d labels can be requested", MaxLabels)
	}
	// Total and page are two queries; the snapshot makes them consistent.
	inner, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = s.snapshot(inner, func(c *call) error {
		where := filter.condition(accountID)
		count, err := queryOne(c, scanNumber, "SELECT count(*) FROM applications"+where.where(), where.args...)
		if err != nil {
			return err
		}
		total = int(count)
		query := applicationQuery(where, after, page)
		applications, err = queryAll(c, scanApplication, query.text, query.args...)
		return err
	})
	if err != nil {
		return nil, 0, "", preferContextError(ctx, err)
	}
	applications, next = paginate(applications, page.limit(), func(last Application) string {
		return list.token(last.Name, last.Namespace, last.RuntimeID)
	})
	return applications, total, next, nil
}

// applicationQuery builds the query of one page.
func applicationQuery(where condition, after []string, page Page) pageQuery {
	if after != nil {
		where.add("(name, namespace, runtime_id) > (?, ?, ?)", after[0], after[1], after[2])
	}
	return page.query("SELECT "+applicationColumns+" FROM applications", where, "name, namespace, runtime_id")
}

// condition builds the WHERE clause. The account is always part of it.
func (f ApplicationFilter) condition(accountID string) condition {
	var where condition
	where.add("account_id = ?", accountID)
	where.addText("runtime_id = ?", f.RuntimeID)
	where.addText("namespace = ?", f.Namespace)
	where.addText("destination_namespace = ?", f.DestinationNamespace)
	where.addText("cluster = ?", f.Cluster)
	where.addText("sync = ?", f.Sync)
	where.addText("health = ?", f.Health)
	if f.Query != "" {
		where.add(`lower(name) LIKE ? ESCAPE '\'`, "%"+likeEscaper().Replace(strings.ToLower(f.Query))+"%")
	}
	// One subquery per label uses the index of application_labels. The sorted
	// order keeps the statement text stable for the statement cache.
	for _, label := range slices.Sorted(maps.Keys(f.Labels)) {
		where.add(`(runtime_id, namespace, name) IN (SELECT l.runtime_id, l.namespace, l.name FROM application_labels l
			WHERE l.account_id = ? AND l.label = ? AND l.value = ?)`, accountID, label, f.Labels[label])
	}
	return where
}

// likeEscaper escapes the wildcards of LIKE.
func likeEscaper() *strings.Replacer {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
}
