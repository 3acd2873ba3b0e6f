package window_test

import (
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/window"
	"slipway.dev/slipway/internal/must"
)

func compile(t *testing.T, specs ...window.Spec) []window.Window {
	t.Helper()
	return must.Get(window.Compile(specs))(t)
}

// spec reads kind, hours and flags: "deny 22+1h manual" opens at 22:00 UTC.
func spec(t *testing.T, text string) window.Spec {
	t.Helper()
	words := strings.Fields(text)
	hour, duration, ok := strings.Cut(words[1], "+")
	if !ok {
		t.Fatalf("%q has no duration", text)
	}
	made := window.Spec{Kind: window.Kind(words[0]), Schedule: "0 " + hour + " * * *", Duration: duration, Applications: []string{"*"}}
	for _, flag := range words[2:] {
		switch flag {
		case "manual":
			made.ManualSync = true
		case "overrun":
			made.SyncOverrun = true
		default:
			t.Fatalf("%q has the unknown flag %s", text, flag)
		}
	}
	return made
}

func at(hour, minute int) time.Time { return time.Date(2026, 11, 15, hour, minute, 0, 0, time.UTC) }

// Argo CD, "The windows work in the following way".
func TestDecide(t *testing.T) {
	for _, test := range []struct {
		name    string
		windows string
		now     time.Time
		want    string // sync, manual or none
		until   time.Time
		why     string
	}{
		{"no windows", "", at(12, 0), "sync", time.Time{}, ""},
		{"a deny window that is open", "deny 22+1h", at(22, 30), "none", at(23, 0), "deny 0 22 * * * for 1h is open until 2026-11-15T23:00:00Z"},
		{"it opens on the minute", "deny 22+1h", at(22, 0), "none", at(23, 0), ""},
		{"it closes on the minute", "deny 22+1h", at(23, 0), "sync", at(46, 0), "no deny window is open"},
		{"a deny window that is closed", "deny 22+1h", at(12, 0), "sync", at(22, 0), ""},
		{"an allow window that is open", "allow 9+8h", at(12, 0), "sync", at(17, 0), "allow 0 9 * * * for 8h is open"},
		{"an allow window that is closed", "allow 9+8h", at(18, 0), "none", at(33, 0), "opens at 2026-11-16T09:00:00Z"},
		{"deny overrides allow", "allow 9+8h; deny 12+1h", at(12, 30), "none", at(13, 0), "deny 0 12"},
		{"one open allow window is enough", "allow 9+8h; allow 20+1h", at(10, 0), "sync", at(17, 0), ""},
		{"by hand, against a deny window", "deny 22+1h manual", at(22, 30), "manual", at(23, 0), ""},
		{"by hand, all deny windows must let", "deny 22+1h manual; deny 22+2h", at(22, 30), "none", at(24, 0), "for 2h is open"},
		{"by hand, outside an allow window", "allow 9+8h manual", at(18, 0), "manual", at(33, 0), ""},
		{"by hand, all allow windows must let", "allow 9+8h manual; allow 20+1h", at(18, 0), "none", at(20, 0), "0 20"},
		{"the first change that changes anything", "deny 8+8h; allow 9+2h; allow 20+1h", at(8, 30), "none", at(20, 0), ""},
		{"the open allow window is named", "allow 20+1h; allow 9+8h", at(10, 0), "sync", at(17, 0), "allow 0 9 * * * for 8h is open"},
		{"openings that overlap", "deny 11,12+2h", at(12, 30), "none", at(14, 0), "is open until 2026-11-15T14:00:00Z"},
		{"windows that touch are one", "allow */2+2h", at(12, 30), "sync", at(12+2*8, 0), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var specs []window.Spec
			for text := range strings.SplitSeq(test.windows, ";") {
				if text != "" {
					specs = append(specs, spec(t, strings.TrimSpace(text)))
				}
			}
			got := window.Decide(compile(t, specs...), window.App{Name: "shop"}, test.now)
			if got.CanSync != (test.want == "sync") || got.CanManual != (test.want != "none") {
				t.Errorf("decision is %+v, want %s", got, test.want)
			}
			if !got.Until.Equal(test.until) {
				t.Errorf("it holds until %v, want %v", got.Until, test.until)
			}
			if !strings.Contains(got.Why, test.why) || test.windows == "" && got.Why != "" {
				t.Errorf("it says %q, want %q", got.Why, test.why)
			}
		})
	}
}

// Argo CD, "Transition Scenarios" of syncOverrun.
func TestMayContinue(t *testing.T) {
	for _, test := range []struct {
		name       string
		windows    string
		began, now time.Time
		want       bool
	}{
		{"no window, deny with overrun", "deny 12+1h overrun", at(11, 0), at(12, 30), true},
		{"no window, deny without overrun", "deny 12+1h", at(11, 0), at(12, 30), false},
		{"allow with overrun, deny with overrun", "allow 9+8h overrun; deny 12+1h overrun", at(11, 0), at(12, 30), true},
		{"allow with overrun, deny without overrun", "allow 9+8h overrun; deny 12+1h", at(11, 0), at(12, 30), false},
		{"allow without overrun, deny with overrun", "allow 9+8h; deny 12+1h overrun", at(11, 0), at(12, 30), true},
		{"allow without overrun, deny without overrun", "allow 9+8h; deny 12+1h", at(11, 0), at(12, 30), false},
		{"allow with overrun ends", "allow 9+1h overrun", at(9, 30), at(12, 0), true},
		{"allow without overrun ends", "allow 9+1h", at(9, 30), at(12, 0), false},
		{"all allows with overrun end", "allow 9+1h overrun; allow 9+2h overrun", at(9, 30), at(12, 0), true},
		{"one allow without overrun ends too", "allow 9+1h overrun; allow 9+2h", at(9, 30), at(12, 0), false},
		{"one of two denies has no overrun", "deny 12+1h overrun; deny 12+2h", at(11, 0), at(12, 30), false},
		{"it was not allowed to begin", "deny 11+2h overrun", at(11, 30), at(12, 30), false},
		{"nothing is in the way", "deny 20+1h", at(11, 0), at(12, 30), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var specs []window.Spec
			for text := range strings.SplitSeq(test.windows, ";") {
				specs = append(specs, spec(t, strings.TrimSpace(text)))
			}
			got, why := window.MayContinue(compile(t, specs...), window.App{Name: "shop"}, test.began, test.now, false)
			if got != test.want || got == (why != "") {
				t.Errorf("it may continue: %v (%s), want %v", got, why, test.want)
			}
		})
	}
	// manualSync lets only what people started go on, and only where the window
	// has it.
	for _, test := range []struct {
		windows string
		manual  bool
		want    bool
	}{
		{"deny 12+1h manual", false, false}, {"deny 12+1h manual", true, true}, {"deny 12+1h", true, false}, {"deny 20+1h", false, true},
	} {
		if ok, why := window.MayContinue(compile(t, spec(t, test.windows)), window.App{Name: "shop"}, at(11, 0), at(12, 30), test.manual); ok != test.want {
			t.Errorf("%s, by hand %t: it may continue: %t (%s)", test.windows, test.manual, ok, why)
		}
	}
	manual := compile(t, spec(t, "deny 11+1h manual"), spec(t, "deny 13+1h overrun"))
	if ok, _ := window.MayContinue(manual, window.App{Name: "shop"}, at(11, 30), at(13, 30), true); !ok {
		t.Error("what people were allowed to begin does not end")
	}
}

func TestSelects(t *testing.T) {
	app := window.App{Name: "shop-prod", Namespace: "shop", Cluster: "in-cluster", Server: "https://kubernetes.default.svc"}
	base := window.Spec{Kind: window.Deny, Schedule: "* * * * *", Duration: "1h"}
	for _, test := range []struct {
		name                             string
		applications, namespaces, others []string
		and                              bool
		want                             bool
	}{
		{"nothing", nil, nil, nil, false, false},
		{"nothing, and", nil, nil, nil, true, false},
		{"by name", []string{"x", "*-prod"}, nil, nil, false, true},
		{"by another name", []string{"*-test"}, nil, nil, false, false},
		{"by namespace", nil, []string{"sh?p"}, nil, false, true},
		{"by cluster", nil, nil, []string{"in-*"}, false, true},
		{"by address", nil, nil, []string{"https://*"}, false, true},
		{"one of two", []string{"*-test"}, []string{"shop"}, nil, false, true},
		{"one of two, and", []string{"*-test"}, []string{"shop"}, nil, true, false},
		{"two of two, and", []string{"*-prod"}, []string{"shop"}, nil, true, true},
		{"two of three, and", []string{"*-prod"}, []string{"shop"}, []string{"far"}, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			made := base
			made.Applications, made.Namespaces, made.Clusters, made.AndOperator = test.applications, test.namespaces, test.others, test.and
			if got := compile(t, made)[0].Selects(app); got != test.want {
				t.Errorf("it selects: %v", got)
			}
		})
	}
}

// An Application without a namespace or cluster is still selected by a pattern
// that matches everything.
func TestSelectsEmpty(t *testing.T) {
	base := window.Spec{Kind: window.Deny, Schedule: "* * * * *", Duration: "1h"}
	byNamespace, byCluster := base, base
	byNamespace.Namespaces, byCluster.Clusters = []string{"*"}, []string{"*"}
	for _, made := range compile(t, byNamespace, byCluster) {
		if !made.Selects(window.App{Name: "shop"}) {
			t.Errorf("%s does not select it", &made)
		}
	}
}

// A malformed window closes what it selects, and nothing else.
func TestMalformed(t *testing.T) {
	for name, change := range map[string]func(*window.Spec){
		"kind":     func(s *window.Spec) { s.Kind = "Deny" },
		"schedule": func(s *window.Spec) { s.Schedule = "* * *" },
		"duration": func(s *window.Spec) { s.Duration = "1 hour" },
		"nothing":  func(s *window.Spec) { s.Duration = "0s" },
		"timeZone": func(s *window.Spec) { s.TimeZone = "Europe/Atlantis" },
		"local":    func(s *window.Spec) { s.TimeZone = "Local" },
		"pattern":  func(s *window.Spec) { s.Applications = []string{"shop", "[a"} },
	} {
		t.Run(name, func(t *testing.T) {
			made := window.Spec{Kind: window.Allow, Schedule: "* * * * *", Duration: "1h", Applications: []string{"shop"}, ManualSync: true}
			change(&made)
			windows, err := window.Compile([]window.Spec{made})
			if err == nil || !strings.Contains(err.Error(), "syncWindows[0]") {
				t.Fatalf("error is %v", err)
			}
			got := window.Decide(windows, window.App{Name: "shop"}, at(12, 0))
			if got.CanSync || got.CanManual || !strings.Contains(got.Why, "malformed") || !got.Until.IsZero() {
				t.Errorf("decision is %+v", got)
			}
			if name != "pattern" && !window.Decide(windows, window.App{Name: "other"}, at(12, 0)).CanSync {
				t.Error("it closes what it does not select")
			}
		})
	}
}

// A window in a zone with summer time is as long as its duration, in elapsed time.
func TestSummerTime(t *testing.T) {
	windows := compile(t, window.Spec{
		Kind: window.Deny, Schedule: "0 1 * * *", Duration: "3h", TimeZone: "Europe/Berlin", Applications: []string{"*"},
	})
	for clockText, open := range map[string]bool{
		"Sun 2026-03-29 00:59 +0100": false,
		"Sun 2026-03-29 01:00 +0100": true,
		"Sun 2026-03-29 04:59 +0200": true, // three hours later, the clock shows four
		"Sun 2026-03-29 05:00 +0200": false,
		"Sun 2026-10-25 02:59 +0100": true, // the second time that the clock shows it
		"Sun 2026-10-25 03:00 +0100": false,
	} {
		got := window.Decide(windows, window.App{Name: "shop"}, instant(t, clockText))
		if got.CanSync == open {
			t.Errorf("at %s it is open: %v", clockText, !open)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	windows := must.Get(window.Compile([]window.Spec{
		{Kind: window.Allow, Schedule: "* * * * *", Duration: "1h", Applications: []string{"*"}, TimeZone: "Europe/Berlin"},
		{Kind: window.Deny, Schedule: "0 22 * * 5", Duration: "48h", Applications: []string{"*"}},
	}))(b)
	for b.Loop() {
		window.Decide(windows, window.App{Name: "shop"}, at(12, 0))
	}
}
