package store_test

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

// app is a change that reports an application.
func app(number int64, name string) store.ReportChange {
	return store.ReportChange{Number: number, Application: &store.Application{Namespace: "apps", Name: name, UID: "uid-" + name}}
}

func gone(number int64, name string) store.ReportChange {
	return store.ReportChange{Number: number, Deleted: &store.ApplicationRef{Namespace: "apps", Name: name, UID: "uid-" + name}}
}

func begin(number int64) store.ReportChange {
	return store.ReportChange{Number: number, ResyncBegin: true}
}
func end(number int64) store.ReportChange { return store.ReportChange{Number: number, ResyncEnd: true} }

// Each numbered change is stored exactly once; a gap stops, and a resync heals it.
func TestReports(t *testing.T) {
	t.Parallel()
	type step struct {
		stream  string
		changes []store.ReportChange
		stored  int64
		gap     bool
		names   string // of the applications afterwards
	}
	first := step{"s", []store.ReportChange{begin(1), app(2, "a"), app(3, "b"), end(4)}, 4, false, "a b"}
	for name, steps := range map[string][]step{
		"in order":                     {first, {"s", []store.ReportChange{app(5, "c"), gone(6, "a")}, 6, false, "b c"}},
		"sent again":                   {first, {"s", []store.ReportChange{gone(5, "a")}, 5, false, "b"}, {"s", []store.ReportChange{begin(1), app(2, "a"), app(3, "b")}, 5, false, "b"}, {"s", []store.ReportChange{app(2, "a"), app(3, "b"), end(4), gone(5, "a"), app(6, "c")}, 6, false, "b c"}},
		"a gap keeps what is before":   {first, {"s", []store.ReportChange{app(5, "c"), app(7, "d"), app(8, "e")}, 5, true, "a b c"}, {"s", []store.ReportChange{app(6, "x")}, 6, false, "a b c x"}},
		"a resync heals a gap":         {first, {"s", []store.ReportChange{app(9, "d")}, 4, true, "a b"}, {"s", []store.ReportChange{begin(20), app(21, "b"), app(22, "d"), end(23)}, 23, false, "b d"}},
		"a resync over two reports":    {first, {"s", []store.ReportChange{begin(5), app(6, "c")}, 6, false, "a b c"}, {"s", []store.ReportChange{app(7, "a"), end(8)}, 8, false, "a c"}},
		"a resync that is begun again": {first, {"s", []store.ReportChange{begin(5), app(6, "a")}, 6, false, "a b"}, {"s", []store.ReportChange{begin(7), app(8, "b"), end(9)}, 9, false, "b"}},
		"a new stream needs a resync":  {first, {"t", []store.ReportChange{app(1, "c")}, 0, true, "a b"}, {"t", []store.ReportChange{begin(1), app(2, "c"), end(3)}, 3, false, "c"}},
		"the first stream needs one":   {{"s", []store.ReportChange{app(1, "a")}, 0, true, ""}},
		"an old stream comes late":     {first, {"t", []store.ReportChange{begin(1), app(2, "c"), end(3)}, 3, false, "c"}, {"s", []store.ReportChange{app(5, "d")}, 0, true, "c"}, {"t", []store.ReportChange{app(4, "e")}, 4, false, "c e"}},
		"an end without a beginning":   {first, {"s", []store.ReportChange{end(5), app(6, "c")}, 6, false, "a b c"}},
		"gone with another UID stays":  {first, {"s", []store.ReportChange{{Number: 5, Deleted: &store.ApplicationRef{Namespace: "apps", Name: "a", UID: "other"}}}, 5, false, "a b"}},
		"an empty resync":              {first, {"s", []store.ReportChange{begin(5), end(6)}, 6, false, ""}},
		"nothing":                      {first, {"s", nil, 4, false, "a b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, w *world) {
				ctx := t.Context()
				account := w.account("Harbour")
				runtime, neighbour := w.runtime(account, "prod"), w.runtime(w.account("Other"), "prod")
				must(w.ApplyReport(ctx, neighbour.ID, "n", []store.ReportChange{begin(1), app(2, "a"), end(3)}))(t)
				for i, step := range steps {
					cursor := must(w.ApplyReport(ctx, runtime.ID, step.stream, step.changes))(t)
					if cursor.Stored != step.stored || cursor.Gap != step.gap || cursor.Stream != step.stream {
						t.Fatalf("step %d: %+v, want %+v", i, cursor, step)
					}
					if names := applicationNames(t, w, account, store.ApplicationFilter{}); strings.Join(names, " ") != step.names {
						t.Fatalf("step %d: got %v, want %s", i, names, step.names)
					}
				}
				if n := must(w.Cursor(ctx, neighbour.ID))(t); n.Stored != 3 || n.Resyncing {
					t.Errorf("the neighbour's cursor is %+v", n)
				}
			})
		})
	}
}

func applicationNames(t testing.TB, w *world, account store.Account, filter store.ApplicationFilter) []string {
	t.Helper()
	return allPages(t, 2, func(page store.Page) ([]store.Application, string, error) {
		applications, _, next, err := w.Applications(t.Context(), account.ID, filter, page)
		return applications, next, err
	}, func(a store.Application) string { return a.Name })
}

func TestReportRefusals(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		runtime := w.runtime(w.account("Harbour"), "prod")
		large, long, labelled := app(2, "a"), app(2, strings.Repeat("a", 600)), app(2, "a")
		large.Application.State = make([]byte, store.MaxApplicationState+1)
		labelled.Application.Labels = map[string]string{"a": strings.Repeat("a", 70<<10)}
		for name, changes := range map[string][]store.ReportChange{
			"large":       {begin(1), large},
			"long":        {begin(1), long},
			"labels":      {begin(1), labelled},
			"no name":     {begin(1), app(2, "")},
			"two things":  {{Number: 1, ResyncBegin: true, ResyncEnd: true}},
			"nothing":     {{Number: 1}},
			"number zero": {begin(0)},
			"too many":    make([]store.ReportChange, store.MaxReportChanges+1),
		} {
			_, err := w.ApplyReport(ctx, runtime.ID, "s", changes)
			if err == nil {
				t.Errorf("%s is stored", name)
				continue
			}
			wantInvalid(t, err)
		}
		_, err := w.ApplyReport(ctx, runtime.ID, "", []store.ReportChange{begin(1)})
		wantInvalid(t, err)
		_, err = w.ApplyReport(ctx, "nobody", "s", []store.ReportChange{begin(1)})
		wantError(t, err, store.ErrNotFound)
		if cursor := must(w.Cursor(ctx, runtime.ID))(t); cursor != (store.Cursor{RuntimeID: runtime.ID}) {
			t.Errorf("the cursor moved: %+v", cursor)
		}
	})
}

// Applications are found by each filter, in the same order on both databases.
func TestApplicationFilters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		account := w.account("Harbour")
		one, two := w.runtime(account, "one"), w.runtime(account, "two")
		foreign := w.runtime(w.account("Other"), "one")
		full := store.Application{Namespace: "team-a", Name: "web_1%", UID: "u", Sync: "Synced", Health: "Healthy", Cluster: "eu", DestinationNamespace: "prod",
			Labels: map[string]string{"app": "web", "tier": "front"}, SeenAt: w.clock.advance(0), State: []byte{1, 0}}
		report(t, w, one, full,
			store.Application{Namespace: "team-b", Name: "api", Sync: "OutOfSync", Health: "Degraded", Cluster: "us", Labels: map[string]string{"app": "web"}},
			store.Application{Namespace: "team-a", Name: "B-upper", Sync: "Synced", Health: "Healthy"})
		report(t, w, two, store.Application{Namespace: "team-a", Name: "api", Sync: "Synced", Health: "Healthy", Cluster: "eu"})
		report(t, w, foreign, store.Application{Namespace: "team-a", Name: "secret", Health: "Healthy"})
		for _, test := range []struct {
			filter store.ApplicationFilter
			want   string
		}{
			{store.ApplicationFilter{}, "[B-upper api api web_1%]"}, // by bytes
			{store.ApplicationFilter{RuntimeID: one.ID}, "[B-upper api web_1%]"},
			{store.ApplicationFilter{RuntimeID: foreign.ID}, "[]"},
			{store.ApplicationFilter{Health: "Healthy"}, "[B-upper api web_1%]"},
			{store.ApplicationFilter{Health: "Healthy", RuntimeID: two.ID}, "[api]"},
			{store.ApplicationFilter{Sync: "OutOfSync"}, "[api]"},
			{store.ApplicationFilter{Namespace: "team-a"}, "[B-upper api web_1%]"},
			{store.ApplicationFilter{DestinationNamespace: "prod"}, "[web_1%]"},
			{store.ApplicationFilter{Cluster: "eu"}, "[api web_1%]"},
			{store.ApplicationFilter{Query: "PI"}, "[api api]"},
			{store.ApplicationFilter{Query: "upper"}, "[B-upper]"},
			{store.ApplicationFilter{Query: "_1%"}, "[web_1%]"},
			{store.ApplicationFilter{Query: "b_1"}, "[web_1%]"},
			{store.ApplicationFilter{Query: "_p_"}, "[]"},
			{store.ApplicationFilter{Query: `\`}, "[]"},
			{store.ApplicationFilter{Labels: map[string]string{"app": "web"}}, "[api web_1%]"},
			{store.ApplicationFilter{Labels: map[string]string{"app": "web", "tier": "front"}}, "[web_1%]"},
			{store.ApplicationFilter{Labels: map[string]string{"app": ""}}, "[]"},
		} {
			names := applicationNames(t, w, account, test.filter)
			if fmt.Sprint(names) != test.want {
				t.Errorf("%+v: got %v, want %s", test.filter, names, test.want)
			}
			_, total, _, err := w.Applications(t.Context(), account.ID, test.filter, store.Page{Size: 1})
			if err != nil || total != len(names) {
				t.Errorf("%+v: total %d, %v", test.filter, total, err)
			}
		}
		full.RuntimeID, full.AccountID, full.Mark = one.ID, account.ID, 1
		ref := store.ApplicationRef{Namespace: "team-a", Name: "web_1%"}
		if got := must(w.Application(t.Context(), account.ID, one.ID, ref))(t); !reflect.DeepEqual(got, full) {
			t.Errorf("got %+v, want %+v", got, full)
		}
		_, err := w.Application(t.Context(), foreign.AccountID, one.ID, ref)
		wantError(t, err, store.ErrNotFound)
		check(t, w.DeleteRuntime(t.Context(), account.ID, one.ID, time.Time{}))
		if names := applicationNames(t, w, account, store.ApplicationFilter{}); fmt.Sprint(names) != "[api]" {
			t.Errorf("after the runtime is gone: %v", names)
		}
	})
}

// An application is found by the labels that it has, not by those that it had.
func TestLabelChanges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		account := w.account("Harbour")
		runtime := w.runtime(account, "prod")
		many := map[string]string{}
		for i := range store.MaxLabels + 10 {
			many[fmt.Sprintf("label-%03d", i)] = "x"
		}
		for _, labels := range []map[string]string{{"a": "1", "b": "1"}, {"a": "2"}, {"a": "2"}, nil, {"a": "1"}, many} {
			report(t, w, runtime, store.Application{Namespace: "apps", Name: "web", Labels: labels})
			for _, label := range []string{"a", "b", "label-000"} {
				for _, value := range []string{"1", "2", "x"} {
					found := len(applicationNames(t, w, account, store.ApplicationFilter{Labels: map[string]string{label: value}})) == 1
					if want := labels[label] == value; found != want {
						t.Errorf("with %v: found by %s=%s is %v", labels, label, value, found)
					}
				}
			}
			if got := must(w.Application(t.Context(), account.ID, runtime.ID, store.ApplicationRef{Namespace: "apps", Name: "web"}))(t); !maps.Equal(got.Labels, labels) {
				t.Errorf("got %v, want %v", got.Labels, labels)
			}
		}
	})
}

// report makes applications all that a runtime has.
func report(t testing.TB, w *world, runtime store.Runtime, applications ...store.Application) {
	t.Helper()
	cursor := must(w.Cursor(t.Context(), runtime.ID))(t)
	number := cursor.Stored
	next := func() int64 { number++; return number }
	changes := []store.ReportChange{begin(next())}
	flush := func() {
		t.Helper()
		must(w.ApplyReport(t.Context(), runtime.ID, "stream", changes))(t)
		changes = nil
	}
	for i := range applications {
		changes = append(changes, store.ReportChange{Number: next(), Application: &applications[i]})
		if len(changes) == 1000 {
			flush()
		}
	}
	changes = append(changes, end(next()))
	flush()
}
