package store

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The two lists that grow large are read through an index, with any filter; without
// one, in the order of that index.
func TestListsUseIndexes(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, url string) {
		s, err := Open(t.Context(), Options{URL: url})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		account, runtime := crowd(t, s, 1500)
		applications := func(filter ApplicationFilter, after []string) pageQuery {
			return applicationQuery(filter.condition(account), after, Page{})
		}
		audit := func(filter AuditFilter) pageQuery {
			list := newListID("audit", account, filter)
			query, err := auditQuery(list, account, filter, Page{Token: list.token("1700000000000000", "id")})
			must(t, err)
			return query
		}
		for _, test := range []struct {
			name, index string
			query       func() pageQuery
		}{
			{"all", "applications_by_name", func() pageQuery { return applications(ApplicationFilter{}, nil) }},
			{"next page", "applications_by_name", func() pageQuery {
				return applications(ApplicationFilter{}, []string{"app-0100", "ns", runtime})
			}},
			{"runtime", "applications_", func() pageQuery { return applications(ApplicationFilter{RuntimeID: runtime}, nil) }},
			{"health", "applications_by_health", func() pageQuery { return applications(ApplicationFilter{Health: "Degraded"}, nil) }},
			{"sync", "applications_by_sync", func() pageQuery { return applications(ApplicationFilter{Sync: "OutOfSync"}, nil) }},
			{"label", "application_labels_by_value", func() pageQuery {
				return applications(ApplicationFilter{Labels: map[string]string{"team": "1"}}, nil)
			}},
			{"audit", "audit_entries_by_time", func() pageQuery { return audit(AuditFilter{}) }},
			{"audit by time", "audit_entries_by_time", func() pageQuery {
				return audit(AuditFilter{Since: time.Unix(1, 0), Until: time.Unix(1<<31, 0)})
			}},
			{"audit, oldest first", "audit_entries_by_time", func() pageQuery { return audit(AuditFilter{OldestFirst: true}) }},
			{"audit by actor", "audit_entries_by_actor", func() pageQuery { return audit(AuditFilter{Actor: "actor 1"}) }},
			{"audit by action", "audit_entries_by_action", func() pageQuery { return audit(AuditFilter{Action: "action 1"}) }},
			{"audit by target", "audit_entries_by_target", func() pageQuery { return audit(AuditFilter{Target: "target 1"}) }},
		} {
			query := test.query()
			plan := planOf(t, s, query.text, query.args)
			if !strings.HasSuffix(test.index, "_by_name") && !strings.HasSuffix(test.index, "_by_time") {
				plan = strings.ReplaceAll(plan, "Sort", "") // PostgreSQL may sort the few that a filter leaves
			}
			if badPlan.MatchString(plan) || !strings.Contains(plan, test.index) {
				t.Errorf("%s, want %s:\n%s\n%s", test.name, test.index, query.text, plan)
			}
		}
	})
}

// crowd fills a store with applications and audit entries of two accounts.
func crowd(t testing.TB, s *Store, size int) (accountID, runtimeID string) {
	t.Helper()
	for range 2 {
		account, err := s.CreateAccount(t.Context(), Account{Name: "crowd"})
		must(t, err)
		runtime, err := s.CreateRuntime(t.Context(), Runtime{AccountID: account.ID, Name: "crowd"})
		must(t, err)
		changes := []ReportChange{{Number: 1, ResyncBegin: true}}
		for i := range size - 2 {
			changes = append(changes, ReportChange{Number: int64(i + 2), Application: &Application{
				Namespace: "ns", Name: fmt.Sprintf("app-%05d", i), Health: seldom(i, "Degraded", "Healthy"), Sync: seldom(i, "OutOfSync", "Synced"),
				Labels: map[string]string{"team": fmt.Sprint(i % 10)}, State: make([]byte, 600)}})
		}
		_, err = s.ApplyReport(t.Context(), runtime.ID, "stream", changes)
		must(t, err)
		must(t, s.write(t.Context(), func(c *call) error {
			for i := range size / 2 {
				_, err := c.exec("INSERT INTO audit_entries ("+firstAuditColumns+") VALUES ($1, $2, $3, $4, 'user', $5, $6, 'ok', '', '')", newID(), account.ID,
					int64(1700000000000000+i), fmt.Sprint("actor ", i%50), fmt.Sprint("action ", i%50), fmt.Sprint("target ", i%50))
				if err != nil {
					return err
				}
			}
			return nil
		}))
		accountID, runtimeID = account.ID, runtime.ID
	}
	must(t, s.write(t.Context(), func(c *call) error {
		_, err := c.exec("ANALYZE")
		return err
	}))
	return accountID, runtimeID
}

// Reading whole tables, and sorting.
var badPlan = regexp.MustCompile(`\bSCAN\b|TEMP B-TREE|Seq Scan|\bSort\b`)

func seldom(i int, one, other string) string {
	if i%40 == 0 {
		return one
	}
	return other
}

func planOf(t testing.TB, s *Store, query string, args []any) (plan string) {
	t.Helper()
	must(t, s.read(t.Context(), func(c *call) error {
		explain, scan := "EXPLAIN QUERY PLAN ", func(r row) (text string, err error) {
			var id, parent, unused int
			return text, r.Scan(&id, &parent, &unused, &text)
		}
		if s.engine.broadcasts() {
			explain, scan = "EXPLAIN ", scanText
		}
		lines, err := queryAll(c, scan, explain+query, args...)
		plan = strings.Join(lines, "\n")
		return err
	}))
	return plan
}

// A page of 5,000 applications, with the total.
func BenchmarkApplications(b *testing.B) {
	for kind, url := range kinds() {
		b.Run(kind, func(b *testing.B) {
			s, err := Open(b.Context(), Options{URL: url(b)})
			must(b, err)
			b.Cleanup(func() { must(b, s.Close()) })
			account, runtime := crowd(b, s, 5000)
			for name, filter := range map[string]ApplicationFilter{
				"all": {}, "runtime": {RuntimeID: runtime}, "health": {Health: "Degraded"}, "query": {Query: "-0001"}, "label": {Labels: map[string]string{"team": "1"}},
			} {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						_, total, _, err := s.Applications(b.Context(), account, filter, Page{Size: 100})
						if err != nil || total == 0 {
							b.Fatal(total, err)
						}
					}
				})
			}
		})
	}
}
