package store

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// Application is what a runtime last reported of one application.
type Application struct {
	RuntimeID, AccountID, Namespace, Name, UID  string
	Sync, Health, Cluster, DestinationNamespace string
	Labels                                      map[string]string // at most MaxLabels are found by ApplicationFilter
	SeenAt                                      time.Time
	State                                       []byte // platformv1.Application; at most MaxApplicationState
	Mark                                        int64  // of the last resync that it was part of
}

// Bounds of an application.
const (
	MaxApplicationState = 256 << 10
	MaxLabels           = 64
	maxName             = 512
	maxLabelText        = 64 << 10
)

// ApplicationRef names an application of a runtime.
type ApplicationRef struct {
	Namespace, Name string
	UID             string // empty: whichever has the name
}

// ApplicationFilter says which applications a list has. What is empty does not
// matter.
type ApplicationFilter struct {
	RuntimeID, Namespace, DestinationNamespace, Cluster, Sync, Health string
	Query                                                             string            // part of the name, whatever its case
	Labels                                                            map[string]string // all of them
}

const applicationColumns = `runtime_id, account_id, namespace, name, uid, sync, health, cluster, destination_namespace, seen_at, mark, labels, state`

func scanApplication(r row) (a Application, err error) {
	return a, r.Scan(&a.RuntimeID, &a.AccountID, &a.Namespace, &a.Name, &a.UID, &a.Sync, &a.Health, &a.Cluster, &a.DestinationNamespace,
		timeColumn{&a.SeenAt}, &a.Mark, jsonColumn{&a.Labels}, blobColumn{&a.State})
}

// Application finds one application.
func (s *Store) Application(ctx context.Context, accountID, runtimeID string, ref ApplicationRef) (application Application, err error) {
	var where condition
	where.add("account_id = ?", accountID)
	where.add("runtime_id = ?", runtimeID)
	where.add("namespace = ?", ref.Namespace)
	where.add("name = ?", ref.Name)
	where.addText("uid = ?", ref.UID)
	err = s.read(ctx, func(c *call) error {
		application, err = queryOne(c, scanApplication, "SELECT "+applicationColumns+" FROM applications"+where.where(), where.args...)
		return err
	})
	return application, err
}

// Applications lists applications of an account by name, namespace and runtime. The
// total is of all pages.
func (s *Store) Applications(ctx context.Context, accountID string, filter ApplicationFilter, page Page) (applications []Application, total int, next string, err error) {
	list := newListing("applications", accountID, filter)
	after, err := list.after(page.Token, 3)
	if err != nil {
		return nil, 0, "", err
	}
	if len(filter.Labels) > MaxLabels {
		return nil, 0, "", invalid("at most %d labels can be asked for", MaxLabels)
	}
	inner, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = s.snapshot(inner, func(c *call) error {
		where := filter.condition(accountID)
		count, err := queryOne(c, scanNumber, "SELECT count(*) FROM applications"+where.where(), where.args...)
		if err != nil {
			return err
		}
		total = int(count)
		query, args := applicationQuery(where, after, page)
		applications, err = queryAll(c, scanApplication, query, args...)
		return err
	})
	if err != nil {
		return nil, 0, "", ended(ctx, err)
	}
	applications, next = cut(applications, page.limit(), func(last Application) string {
		return list.token(last.Name, last.Namespace, last.RuntimeID)
	})
	return applications, total, next, nil
}

func applicationQuery(where condition, after []string, page Page) (string, []any) {
	if after != nil {
		where.add("(name, namespace, runtime_id) > (?, ?, ?)", after[0], after[1], after[2])
	}
	where.args = append(where.args, page.limit()+1)
	return "SELECT " + applicationColumns + " FROM applications" + where.where() + " ORDER BY name, namespace, runtime_id" + where.limit(), where.args
}

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
	for _, label := range slices.Sorted(maps.Keys(f.Labels)) {
		where.add(`(runtime_id, namespace, name) IN (SELECT l.runtime_id, l.namespace, l.name FROM application_labels l
			WHERE l.account_id = ? AND l.label = ? AND l.value = ?)`, accountID, label, f.Labels[label])
	}
	return where
}

// likeEscaper lets the characters that LIKE knows stand for themselves.
func likeEscaper() *strings.Replacer {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
}
