package gitops

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

// testExamples has one agent sync all examples at a time, each from a repository
// and to a namespace of its own.
func (s *suite) testExamples(t *testing.T) {
	e := &exhibition{suite: s, git: gittest.Serve(t), control: s.cluster.Namespace(t)}
	chart := packChart(t)
	e.charts, e.registry = serveCharts(t, chart), serveRegistry(t, chart)
	s.start(t, e.control, "--leaderElection.enabled=false")
	t.Run("all", func(t *testing.T) {
		for name, archive := range archives.All(t, "examples/*.txtar") {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e.show(t, name, archive)
			})
		}
	})
}

// exhibition is an agent and where it takes the examples from.
type exhibition struct {
	*suite
	git     *gittest.Server
	control string
	// charts is the address of a Helm repository, and registry the host of a
	// registry. Both have the chart settings.
	charts, registry string
}

// show applies what an archive has in apps.yaml, and waits until all is as it
// wants. Its other files are the repository.
func (e *exhibition) show(t *testing.T, name string, archive *txtar.Archive) {
	target := e.cluster.Namespace(t)
	recorder := agentprocess.Record(t, e.cluster.Cluster, target)
	repository := e.git.Repository(t, name, map[string]string{"README": string(archive.Comment)})
	place := strings.NewReplacer("CONTROL", e.control, "TARGET", target, "CHARTS", e.charts, "REGISTRY", e.registry, "REPOSITORY", repository.URL())
	apps, want := take(archive, "apps.yaml"), strings.Fields(take(archive, "want"))
	order := strings.Fields(take(archive, "order"))
	content := archives.Texts(archive)
	for path, text := range content {
		content[path] = place.Replace(text)
	}
	repository.Commit(t, content, "the example")
	e.cluster.Apply(t, e.control, place.Replace(apps))
	var objects []string
	for _, one := range want {
		if app, found := strings.CutPrefix(one, "Application/"); found {
			agentprocess.Await(t, e.applications(e.control), app, agentprocess.InOrder(""))
		} else {
			objects = append(objects, one)
		}
	}
	lives := recorder.Await(t, func(lives []agentprocess.Life) error {
		return errors.Join(same(lives, objects), allSeen(lives, order))
	})
	checkOrder(t, lives, order)
}

// same is nil when these objects are there and no others. What Kubernetes puts
// into every namespace does not count.
func same(lives []agentprocess.Life, want []string) error {
	var got []string
	for i := range lives {
		if lives[i].Deletions == 0 && lives[i].Name != "kube-root-ca.crt" {
			got = append(got, lives[i].ID())
		}
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		return fmt.Errorf("there are %v, and not %v", got, want)
	}
	return nil
}

// allSeen is nil when the recorder has all moments. The agent sees the end of a Job
// in a watch of its own, which may be ahead of the recorder's.
func allSeen(lives []agentprocess.Life, order []string) error {
	for _, moment := range order {
		if at(lives, moment) == 0 {
			return fmt.Errorf("%s was not seen", moment)
		}
	}
	return nil
}

// at is the resource version of a moment, or 0. A moment is Kind/Name for the
// creation of an object, and Kind/Name=done for the end of a Job.
func at(lives []agentprocess.Life, moment string) (version int64) {
	id, done := strings.CutSuffix(moment, "=done")
	for i := range lives {
		switch {
		case lives[i].ID() != id:
		case done:
			version = lives[i].Done
		default:
			version = lives[i].Created
		}
	}
	return version
}

// checkOrder: moments were in this order.
func checkOrder(t *testing.T, lives []agentprocess.Life, order []string) {
	t.Helper()
	last, lastName := int64(0), "the beginning"
	for _, moment := range order {
		at := at(lives, moment)
		if at < last {
			t.Errorf("%s was at %d, and not after %s at %d\n%s", moment, at, lastName, last, agentprocess.Show(lives))
		}
		last, lastName = at, moment
	}
}
