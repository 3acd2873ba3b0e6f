package up

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/kube"
)

const (
	demoName = "demo"
	// upOwner is the field manager of this program.
	upOwner = "slipway-up"
	// demoTimeout is how long a later start waits for a demo that the user may
	// have changed or broken on purpose. The first start requires it.
	demoTimeout = 30 * time.Second
)

// demoStatus is the demo's part of a scene.
type demoStatus struct {
	// fresh is set if this run has created the Application.
	fresh bool
	// gone is set if the user has deleted the Application.
	gone bool
	// application describes the state of the Application.
	application string
	// image is that of the Deployment, empty if there is none.
	image          string
	ready, desired int
	// legacy is set for a demo that an older version applied without Git.
	legacy bool
	// address is host:port of a Pod that responded.
	address string
}

// replicas describes the rollout for progress and table.
func (d demoStatus) replicas() string {
	return fmt.Sprintf("%d of %d replicas ready", d.ready, d.desired)
}

// startDemo creates the Application of the demo in a new cluster. In a cluster
// that had it before, only the port of the repository is updated.
func startDemo(ctx context.Context, s *scene) (*child, error) {
	// Without git there is no repository that an Application could follow.
	if s.git.missing != "" {
		return nil, nil
	}
	if s.state.marker.ApplicationMade {
		var err error
		s.demo.gone, err = moveApplication(ctx, s.cluster, s.repositoryURL())
		return nil, err
	}
	target := kube.Target{Namespace: controlNamespace, Manager: upOwner}
	if _, err := s.cluster.Apply(ctx, target, demoApplication(s.repositoryURL())); err != nil {
		return nil, err
	}
	// The marker is saved last: a start that was interrupted before applies the
	// same Application once more.
	s.demo.fresh = true
	return nil, s.state.applicationIsMade()
}

// demoReady waits until the Application is synced and healthy, its Pods
// respond, and the edge routes to them.
func demoReady(ctx context.Context, s *scene, report func(string)) (string, error) {
	if s.git.missing != "" {
		return "left out, it comes from Git", nil
	}
	if s.demo.gone {
		return "deleted by you, left so", nil
	}
	// The first start has to bring up a complete demo.
	if s.demo.fresh {
		err := s.awaitDemo(ctx, report)
		return s.demo.summary(), err
	}
	patient, cancel := context.WithTimeout(ctx, min(demoTimeout, s.options.Timeout/2))
	defer cancel()
	err := s.awaitDemo(patient, report)
	// Only the shorter timeout is no error. An interrupt, or the end of the
	// timeout for the whole start, is one.
	if err != nil && ctx.Err() == nil && patient.Err() != nil {
		if err := s.lookAtDemo(ctx); err != nil {
			return "", err
		}
		return s.demo.summary() + ", left as it is", nil
	}
	return s.demo.summary(), err
}

// awaitDemo waits for the whole demo.
func (s *scene) awaitDemo(ctx context.Context, report func(string)) error {
	if err := s.demo.awaitApplication(ctx, s.cluster, report); err != nil {
		return err
	}
	if err := s.demo.awaitRollout(ctx, s.cluster, report); err != nil {
		return err
	}
	// The agent owns the fields once the rollout is complete.
	if s.demo.legacy {
		if err := releaseDemo(ctx, s.cluster); err != nil {
			return err
		}
	}
	// A user may have removed the Ingress and the HTTPRoute, or scaled the demo to
	// zero.
	if err := s.checkEdge(ctx); err != nil || s.demo.desired == 0 {
		return err
	}
	host := cmp.Or(s.edge.host, s.edge.routeHost)
	if host == "" {
		return nil
	}
	report("waiting for " + host + " to respond")
	return poll(ctx, func() bool { return s.edgeResponds(ctx) })
}

// lookAtDemo reads once what there is of the demo, where it need not be
// complete.
func (s *scene) lookAtDemo(ctx context.Context) error {
	if err := s.demo.lookAtRollout(ctx, s.cluster); err != nil {
		return err
	}
	s.demo.findResponding(ctx, s.cluster)
	return s.checkEdge(ctx)
}

// summary describes the demo in a few words.
func (d demoStatus) summary() string {
	if d.image == "" {
		return d.application
	}
	return d.application + ", " + d.replicas()
}

// showDemo returns the demo's row and hints.
func showDemo(s *scene) (Row, []Hint) {
	row := Row{Part: demoName}
	switch {
	case s.git.missing != "":
		row.Detail = "left out: it comes from Git"
		return row, nil
	case s.demo.gone:
		row.Detail = "deleted by you; --reset brings it back, with everything else fresh"
		return row, nil
	case s.demo.image == "":
		row.Detail = fmt.Sprintf("Application %s/%s, %s", controlNamespace, demoName, s.demo.application)
	default:
		row.Detail = fmt.Sprintf("Application %s/%s, %s, %s, %s", controlNamespace, demoName, s.demo.application, s.demo.image, s.demo.replicas())
	}
	var hints []Hint
	if s.demo.address != "" {
		row.Address = "http://" + s.demo.address
		hints = append(hints, Hint{"send a request to one Pod", "curl " + row.Address + "/api"})
	}
	return row, append(hints, s.changeHints()...)
}

// changeHints are commands to try next: a change of the demo through Git.
func (s *scene) changeHints() []Hint {
	hints := []Hint{{"clone the demo", "git clone " + s.repositoryURL()}}
	if next := nextVersion(s.demo.image); next != "" {
		hints = append(hints,
			Hint{"change it to " + next, fmt.Sprintf("sed -i 's/newTag: .*/newTag: %s/' demo/deploy/kustomization.yaml", next)},
			Hint{"push the change", fmt.Sprintf("git -C demo commit -a -m %s && git -C demo push", next)},
		)
		if s.edge.serves {
			hints = append(hints, Hint{"see the response", s.curl(webPort, s.edge.host)})
		}
	}
	return append(hints, Hint{"status of the demo", s.slipway(fmt.Sprintf("app get --direct %s/%s", controlNamespace, demoName))})
}

// nextVersion returns the version after that of a demo image, empty for another
// image.
func nextVersion(image string) string {
	number, err := strconv.Atoi(strings.TrimPrefix(image, "slipway.dev/demo:v"))
	if err != nil || number < 1 {
		return ""
	}
	return "v" + strconv.Itoa(number+1)
}
