package history

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const (
	day = 24 * time.Hour
	// defaultSpan is used without a beginning, maxSpan bounds the days of a
	// response.
	defaultSpan = 30 * day
	maxSpan     = 1100 * day
	// maxGroups bounds the groups of a response.
	maxGroups = 1000
)

// figures computes the four figures of a span. Deployments are added in the
// order in which they ended.
type figures struct {
	since, until time.Time
	groupBy      platformv1.DoraGroup
	total        *group
	groups       map[groupKey]*group
	days         map[time.Time]*platformv1.DoraDay
	// broken has the Applications that failed and were not restored since.
	broken map[application]failure
}

// failure is a time in which the newest change of an Application was bad. It
// counts in the groups that it began in: the project may change meanwhile.
type failure struct {
	since  time.Time
	groups []*group
}

// groupKey identifies a group; the fields that do not apply are empty.
type groupKey struct{ runtime, project, namespace, name string }

// group has what the figures of one group are computed of.
type group struct {
	deployments, failed, rolledBack int32
	leadTimes, restoreTimes         []time.Duration
	broken                          int32
}

func newFigures(since, until time.Time, groupBy platformv1.DoraGroup) *figures {
	return &figures{
		since: since, until: until, groupBy: groupBy, total: &group{}, groups: map[groupKey]*group{},
		days: map[time.Time]*platformv1.DoraDay{}, broken: map[application]failure{},
	}
}

// add adds a deployment of a runtime. The caller has filtered those that the
// user may not see, so that no figure, not even a total, discloses them.
func (f *figures) add(d *store.Deployment, runtime string) {
	groups := []*group{f.total}
	if f.groupBy != platformv1.DoraGroup_DORA_GROUP_UNSPECIFIED {
		key := f.keyOf(d, runtime)
		if f.groups[key] == nil {
			f.groups[key] = &group{}
		}
		groups = append(groups, f.groups[key])
	}
	for _, g := range groups {
		g.add(d)
	}
	f.addDay(d)
	// A failure begins with the first bad deployment and ends with the next
	// good one.
	// The project is not part of the key: a move to another one does not end a
	// failure.
	of := application{runtimeID: d.RuntimeID, namespace: d.Namespace, name: d.Name}
	began, broken := f.broken[of]
	switch bad := !d.Succeeded || !d.RolledBackAt.IsZero(); {
	case bad && !broken:
		f.broken[of] = failure{d.FinishedAt, groups}
		for _, g := range groups {
			g.broken++
		}
	case !bad && broken:
		delete(f.broken, of)
		for _, g := range began.groups {
			g.broken--
			g.restoreTimes = append(g.restoreTimes, max(0, d.FinishedAt.Sub(began.since)))
		}
	}
}

// keyOf returns the group of a deployment.
func (f *figures) keyOf(d *store.Deployment, runtime string) groupKey {
	switch f.groupBy {
	case platformv1.DoraGroup_DORA_GROUP_PROJECT:
		return groupKey{project: d.Project}
	case platformv1.DoraGroup_DORA_GROUP_RUNTIME:
		return groupKey{runtime: runtime}
	}
	return groupKey{runtime: runtime, namespace: d.Namespace, name: d.Name}
}

// add counts a deployment.
func (g *group) add(d *store.Deployment) {
	switch {
	case !d.Succeeded:
		g.failed++
		return
	// Going back restores and delivers nothing new. If it is itself rolled back,
	// the change that failed is counted already.
	case d.GoingBack:
		return
	case !d.RolledBackAt.IsZero():
		g.rolledBack++
	}
	g.deployments++
	if !d.CommittedAt.IsZero() {
		g.leadTimes = append(g.leadTimes, max(0, d.FinishedAt.Sub(d.CommittedAt)))
	}
}

// addDay counts a deployment in its day, by the same rules as a group: charts
// subtract those that were rolled back from the deployments.
func (f *figures) addDay(d *store.Deployment) {
	at := d.FinishedAt.UTC().Truncate(day)
	one := f.days[at]
	if one == nil {
		one = &platformv1.DoraDay{Day: timestamppb.New(at)}
		f.days[at] = one
	}
	switch {
	case !d.Succeeded:
		one.Failed++
	case !d.GoingBack:
		one.Deployments++
		if !d.RolledBackAt.IsZero() {
			one.RolledBack++
		}
	}
}

// message returns the figures.
func (f *figures) message() *platformv1.GetDoraResponse {
	response := &platformv1.GetDoraResponse{
		Since: timestamppb.New(f.since), Until: timestamppb.New(f.until), Total: f.total.message(groupKey{}, f.until.Sub(f.since)),
	}
	for key, g := range f.groups {
		response.Groups = append(response.Groups, g.message(key, f.until.Sub(f.since)))
	}
	slices.SortFunc(response.Groups, func(a, b *platformv1.Dora) int {
		return cmp.Or(cmp.Compare(b.Deployments, a.Deployments), cmp.Compare(b.Failed, a.Failed), cmp.Compare(a.Runtime, b.Runtime),
			cmp.Compare(a.Project, b.Project), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if more := len(response.Groups) - maxGroups; more > 0 {
		response.Groups, response.GroupsLeftOut = response.Groups[:maxGroups], int32(more)
	}
	// Days without a deployment are part of a chart.
	for at := f.since.UTC().Truncate(day); at.Before(f.until); at = at.Add(day) {
		one := f.days[at]
		if one == nil {
			one = &platformv1.DoraDay{Day: timestamppb.New(at)}
		}
		response.Days = append(response.Days, one)
	}
	return response
}

// message computes the figures of a group. A median without values is absent and
// not zero, which would be the best one.
func (g *group) message(key groupKey, span time.Duration) *platformv1.Dora {
	m := &platformv1.Dora{
		Runtime: key.runtime, Project: key.project, Namespace: key.namespace, Name: key.name,
		Deployments: g.deployments, DeploymentsPerDay: float64(g.deployments) / (float64(span) / float64(day)),
		LeadTimes: int32(len(g.leadTimes)), Failed: g.failed, RolledBack: g.rolledBack,
		Restores: int32(len(g.restoreTimes)), OpenFailures: g.broken,
	}
	if len(g.leadTimes) > 0 {
		m.LeadTime = durationpb.New(median(g.leadTimes))
	}
	if len(g.restoreTimes) > 0 {
		m.TimeToRestore = durationpb.New(median(g.restoreTimes))
	}
	if all := g.deployments + g.failed; all > 0 {
		m.ChangeFailureRate = min(1, float64(g.failed+g.rolledBack)/float64(all))
	}
	return m
}

// median returns the middle of a list that is not empty, and sorts it. Figures
// use it because a single commit that waited for months would dominate a mean.
func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	middle := len(all) / 2
	if len(all)%2 == 1 {
		return all[middle]
	}
	return (all[middle-1] + all[middle]) / 2
}
