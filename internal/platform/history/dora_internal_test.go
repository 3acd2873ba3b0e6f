package history

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

var dawn = time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)

// deployment reads one such as "shop B 10 ~ 4": an Application, a revision, the hour of
// its end, how it ended, and hours since the commit.
func deployment(text string) *store.Deployment {
	words := strings.Fields(text)
	var hour, lead int
	_, _ = fmt.Sscan(words[2], &hour)
	d := &store.Deployment{Namespace: "argocd", Name: words[0], RuntimeID: "r", Project: "p-" + words[0]}
	d.Revision, d.FinishedAt, d.Succeeded = words[1], dawn.Add(time.Duration(hour)*time.Hour), words[3] != "!"
	d.GoingBack = strings.HasPrefix(words[3], "<")
	if strings.HasSuffix(words[3], "~") {
		d.RolledBackAt = d.FinishedAt.Add(time.Hour)
	}
	if len(words) > 4 {
		_, _ = fmt.Sscan(words[4], &lead)
		d.CommittedAt = d.FinishedAt.Add(-time.Duration(lead) * time.Hour)
	}
	return d
}

// shown is deployments, per day, lead time and their number, failed, rolled back, rate,
// time to restore and their number, and open.
func shown(d *platformv1.Dora) string {
	return fmt.Sprintf("%d %.2f %v/%d %d %d %.2f %v/%d %d", d.GetDeployments(), d.GetDeploymentsPerDay(), d.GetLeadTime().AsDuration(), d.GetLeadTimes(),
		d.GetFailed(), d.GetRolledBack(), d.GetChangeFailureRate(), d.GetTimeToRestore().AsDuration(), d.GetRestores(), d.GetOpenFailures())
}

func TestDora(t *testing.T) {
	for name, test := range map[string]struct{ given, want string }{
		"nothing":                    {"", "0 0.00 0s/0 0 0 0.00 0s/0 0"},
		"good ones":                  {"shop A 1 . 4; shop B 2 . 2; web A 3 .", "3 1.50 3h0m0s/2 0 0 0.00 0s/0 0"},
		"an odd number of leads":     {"shop A 1 . 1; shop B 2 . 2; shop C 3 . 9", "3 1.50 2h0m0s/3 0 0 0.00 0s/0 0"},
		"a commit of the future":     {"shop A 1 . -4", "1 0.50 0s/1 0 0 0.00 0s/0 0"},
		"failed and restored":        {"shop A 1 .; shop B 2 !; shop C 5 .", "2 1.00 0s/0 1 0 0.33 3h0m0s/1 0"},
		"failed twice, restored":     {"shop A 1 .; shop B 2 !; shop C 4 !; shop D 8 .", "2 1.00 0s/0 2 0 0.50 6h0m0s/1 0"},
		"rolled back":                {"shop A 1 .; shop B 2 ~; shop A 4 <", "2 1.00 0s/0 0 1 0.50 2h0m0s/1 0"},
		"going back has no lead":     {"shop A 1 . 1; shop B 2 ~ 1; shop A 4 < 9", "2 1.00 1h0m0s/2 0 1 0.50 2h0m0s/1 0"},
		"two steps back":             {"shop A 1 .; shop B 2 .; shop C 3 ~; shop B 4 <~; shop A 7 <", "3 1.50 0s/0 0 1 0.33 4h0m0s/1 0"},
		"still broken":               {"shop A 1 .; shop B 2 !", "1 0.50 0s/0 1 0 0.50 0s/0 1"},
		"another does not restore":   {"shop A 1 !; web A 2 .", "1 0.50 0s/0 1 0 0.50 0s/0 1"},
		"failed alone":               {"shop A 1 !", "0 0.00 0s/0 1 0 1.00 0s/0 1"},
		"two failures, their median": {"shop A 1 !; web A 1 !; shop B 2 .; web B 5 .", "2 1.00 0s/0 2 0 0.50 2h30m0s/2 0"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFigures(dawn, dawn.Add(2*day), platformv1.DoraGroup_DORA_GROUP_UNSPECIFIED)
			for _, line := range strings.Split(test.given, ";") {
				if strings.TrimSpace(line) != "" {
					f.add(deployment(line), "prod")
				}
			}
			if got := shown(f.message().GetTotal()); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// Groups have the sums of their own, and days those of all.
func TestDoraGroups(t *testing.T) {
	for by, want := range map[platformv1.DoraGroup]string{
		platformv1.DoraGroup_DORA_GROUP_UNSPECIFIED: "",
		platformv1.DoraGroup_DORA_GROUP_APPLICATION: "prod//argocd/shop 2 1; prod//argocd/web 1 0",
		platformv1.DoraGroup_DORA_GROUP_PROJECT:     "/p-shop// 2 1; /p-web// 1 0",
		platformv1.DoraGroup_DORA_GROUP_RUNTIME:     "prod/// 3 1",
	} {
		f := newFigures(dawn, dawn.Add(2*day), by)
		for _, line := range []string{"shop A 1 .", "web A 11 .", "shop B 12 !", "shop C 47 ."} {
			f.add(deployment(line), "prod")
		}
		response := f.message()
		var got []string
		for _, g := range response.GetGroups() {
			got = append(got, fmt.Sprintf("%s/%s/%s/%s %d %d", g.GetRuntime(), g.GetProject(), g.GetNamespace(), g.GetName(), g.GetDeployments(), g.GetFailed()))
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%v: got %q, want %q", by, got, want)
		}
		// From noon to noon there are three days.
		var days []string
		for _, d := range response.GetDays() {
			days = append(days, fmt.Sprintf("%s:%d+%d", d.GetDay().AsTime().Format("02"), d.GetDeployments(), d.GetFailed()))
		}
		if strings.Join(days, " ") != "01:2+0 02:0+1 03:1+0" {
			t.Errorf("the days are %v", days)
		}
	}
}

// A span that ends with a day does not have the next one.
func TestDoraMidnight(t *testing.T) {
	midnight := dawn.Truncate(day)
	if days := newFigures(midnight.Add(-2*day), midnight, platformv1.DoraGroup_DORA_GROUP_UNSPECIFIED).message().GetDays(); len(days) != 2 {
		t.Errorf("the days are %v", days)
	}
}

// Groups beyond the limit are left out, the quietest first.
func TestDoraGroupsLeftOut(t *testing.T) {
	f := newFigures(dawn, dawn.Add(day), platformv1.DoraGroup_DORA_GROUP_APPLICATION)
	f.add(deployment("quiet A 1 !"), "prod")
	for i := range maxGroups {
		f.add(deployment(fmt.Sprintf("app%d A 1 .", i)), "prod")
	}
	response := f.message()
	last := response.GetGroups()[len(response.GetGroups())-1]
	if len(response.GetGroups()) != maxGroups || response.GetGroupsLeftOut() != 1 || last.GetDeployments() != 1 {
		t.Errorf("%d groups, %d left out, the last is %v", len(response.GetGroups()), response.GetGroupsLeftOut(), last)
	}
}

// A day has no more deployments that were rolled back than deployments.
func TestDoraDays(t *testing.T) {
	f := newFigures(dawn, dawn.Add(time.Hour), platformv1.DoraGroup_DORA_GROUP_UNSPECIFIED)
	for _, line := range []string{"shop C 1 ~", "shop B 2 <~", "shop A 3 <", "web A 4 !"} {
		f.add(deployment(line), "prod")
	}
	if d := f.message().GetDays()[0]; d.GetDeployments() != 1 || d.GetRolledBack() != 1 || d.GetFailed() != 1 {
		t.Errorf("got %v", d)
	}
}

// A failure is restored in the groups that it began in.
func TestDoraProjectChanges(t *testing.T) {
	f := newFigures(dawn, dawn.Add(day), platformv1.DoraGroup_DORA_GROUP_PROJECT)
	f.add(deployment("shop A 1 !"), "prod")
	moved := deployment("shop B 2 .")
	moved.Project = "other"
	f.add(moved, "prod")
	for _, g := range f.message().GetGroups() {
		if g.GetOpenFailures() != 0 || (g.GetRestores() == 1) != (g.GetProject() == "p-shop") {
			t.Errorf("got %v", g)
		}
	}
}
