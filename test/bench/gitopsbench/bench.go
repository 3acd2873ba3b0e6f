package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	readyTimeout = 3 * time.Minute
	syncTimeout  = 15 * time.Minute
	// after is how long requests are counted that a change may still cause.
	after = 5 * time.Second
	// driftRate is how many objects are changed in a second.
	driftRate = 50
)

// bench measures one agent at one size.
type bench struct {
	settings *settings
	world    *world
	agent    *agent
	out      io.Writer
	figures  *figures
}

// run goes through the phases.
func (b *bench) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	group, inGroup := errgroup.WithContext(ctx)
	group.Go(func() error { return b.world.watch(inGroup) })
	group.Go(func() error {
		defer stop()
		return b.phases(inGroup)
	})
	return group.Wait()
}

func (b *bench) phases(ctx context.Context) error {
	if err := b.start(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	group, watching := errgroup.WithContext(watching)
	group.Go(func() error { return b.agent.follow(watching) })
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"install", func(ctx context.Context) error { return b.all(ctx, "install", "v1", &b.figures.Install) }},
		{"upgrade", func(ctx context.Context) error { return b.all(ctx, "upgrade", "v2", &b.figures.Upgrade) }},
		{"settle", b.settle},
		{"idle", b.idle},
		{"one", b.one},
		{"drift", b.drift},
	} {
		if err := phase.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", phase.name, err)
		}
	}
	stop()
	return group.Wait()
}

func (b *bench) tell(format string, args ...any) { fmt.Fprintf(b.out, "  "+format+"\n", args...) }

// start waits until the agent has looked at all Applications: none of them has a
// folder yet.
func (b *bench) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := b.agent.Await(ctx, 20*time.Millisecond, b.agent.ready); err != nil {
		return err
	}
	return b.world.until(ctx, b.world.apps, func(s appState) bool { return s.message != "" })
}

// all pushes a revision of every Application, and waits until all are synced.
func (b *bench) all(ctx context.Context, name, revision string, into *syncFigures) error {
	files := map[string]string{}
	for app := range b.world.apps {
		maps.Copy(files, b.settings.form.files(app, revision))
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	finish := b.agent.profile(ctx, b.settings.profile, fmt.Sprintf("%d-%s", b.world.apps, name), 10*time.Second)
	if _, err := b.agent.peak(); err != nil {
		return err
	}
	used, took, err := b.push(ctx, files, b.world.apps)
	if err != nil {
		return err
	}
	settled, err := b.agent.memory()
	if err != nil {
		return err
	}
	most, err := b.agent.peak()
	if err != nil {
		return err
	}
	*into = syncFigures{
		Seconds: took.Seconds(), CPU: used.cpu.agent.Seconds(), Cluster: used.cpu.cluster.Seconds(), Requests: used.requests, Renders: used.renders,
		Memory: megabytes(settled), Peak: megabytes(most),
	}
	b.tell("%s: all Synced after %.1f s; %.0f requests, %.0f renders, %.1f s CPU of the agent, memory %.0f MB, at most %.0f MB",
		name, into.Seconds, into.Requests, into.Renders, into.CPU, into.Memory, into.Peak)
	b.tell("  requests by method and code: %v", used)
	b.tell("  processor time: %v", used.cpu)
	if err := finish(); err != nil {
		return err
	}
	return b.agent.heap(ctx, b.settings.profile, fmt.Sprintf("%d-%s", b.world.apps, name))
}

// push pushes files, tells the agent, and waits until so many Applications are
// synced to the commit.
func (b *bench) push(ctx context.Context, files map[string]string, apps int) (counts, time.Duration, error) {
	commit, err := b.world.repository.push(files)
	if err != nil {
		return counts{}, 0, err
	}
	before, err := b.agent.counts(ctx)
	if err != nil {
		return counts{}, 0, err
	}
	began := time.Now()
	if err := b.agent.notify(ctx, b.world.repository.url, commit); err != nil {
		return counts{}, 0, err
	}
	err = b.world.until(ctx, apps, func(s appState) bool {
		return s.sync == "Synced" && s.revision == commit && s.synced == commit && s.phase == "Succeeded"
	})
	took := time.Since(began)
	if err != nil {
		return counts{}, 0, err
	}
	done, err := b.agent.counts(ctx)
	return done.since(before), took, err
}

// one pushes a commit that touches one folder of all.
func (b *bench) one(ctx context.Context) error {
	// What the phase before caused is over when nothing is asked any more.
	if err := b.quiet(ctx); err != nil {
		return err
	}
	before, err := b.agent.counts(ctx)
	if err != nil {
		return err
	}
	_, took, err := b.push(ctx, b.settings.form.files(rand.IntN(b.world.apps), "v3"), 1)
	if err != nil {
		return err
	}
	if err := wait(ctx, after); err != nil {
		return err
	}
	done, err := b.agent.counts(ctx)
	if err != nil {
		return err
	}
	used := done.since(before)
	b.figures.One = oneFigures{Seconds: took.Seconds(), Requests: used.requests, Renders: used.renders}
	b.tell("one of %d: Synced after %.2f s; %.0f renders, %.0f requests", b.world.apps, took.Seconds(), used.renders, used.requests)
	b.tell("  requests by method and code: %v", used)
	return nil
}

// settle gives every Ingress an address, as the controller that serves it would,
// and waits until all is well. What waits for something is not idle: it is told
// as Degraded when its deadline ends.
func (b *bench) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	patch := []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`)
	for app := range b.world.apps {
		_, err := b.world.Client.NetworkingV1().Ingresses(namespaceOf(app)).
			Patch(ctx, nameOf(app), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "somebody"}, "status")
		if err != nil {
			return err
		}
	}
	return b.world.until(ctx, b.world.apps, func(s appState) bool { return s.health == "Healthy" })
}

// quiet waits until the controllers have seen every Deployment, and the agent asks
// nothing for some seconds. Controllers ask at a bounded rate, and what they write
// late would be news in a time that should have none.
func (b *bench) quiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	last, err := b.agent.counts(ctx)
	for err == nil {
		if err = wait(ctx, after); err != nil {
			break
		}
		var now counts
		now, err = b.agent.counts(ctx)
		// The Lease is renewed all the time.
		if used := now.since(last); err == nil && used.requests <= 2*after.Seconds() {
			var behind int
			if behind, err = b.behind(ctx); err == nil && behind == 0 {
				return nil
			}
		}
		last = now
	}
	return err
}

// behind is how many Deployments the controllers have not seen as they are.
func (b *bench) behind(ctx context.Context) (count int, err error) {
	deployments, err := b.world.Client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for i := range deployments.Items {
		if deployments.Items[i].Status.ObservedGeneration != deployments.Items[i].Generation {
			count++
		}
	}
	return count, nil
}

// idle counts what is asked when nothing happens. It comes before the commit that
// touches one folder, so that nothing of that is in it.
func (b *bench) idle(ctx context.Context) error {
	if b.settings.idle == 0 {
		return nil
	}
	if err := b.quiet(ctx); err != nil {
		return err
	}
	before, err := b.agent.counts(ctx)
	if err != nil {
		return err
	}
	writes, err := b.versions(ctx)
	if err != nil {
		return err
	}
	if err := wait(ctx, b.settings.idle); err != nil {
		return err
	}
	done, err := b.agent.counts(ctx)
	if err != nil {
		return err
	}
	now, err := b.versions(ctx)
	if err != nil {
		return err
	}
	changed := 0
	for name, version := range now {
		if writes[name] != version {
			changed++
		}
	}
	memory, err := b.agent.memory()
	if err != nil {
		return err
	}
	used, length := done.since(before), b.settings.idle.Seconds()
	b.figures.Idle = idleFigures{
		Seconds: length, Requests: used.requests / length, Written: changed,
		CPU: used.cpu.agent.Seconds() / length, Memory: megabytes(memory),
	}
	b.tell("idle for %.0f s: %.2f requests per second, %d objects written, %.1f ms CPU per second, memory %.0f MB",
		length, b.figures.Idle.Requests, changed, 1000*b.figures.Idle.CPU, b.figures.Idle.Memory)
	b.tell("  requests by method and code: %v", used)
	return b.agent.heap(ctx, b.settings.profile, fmt.Sprintf("%d-idle", b.world.apps))
}

// versions are the resource versions of the Applications and of what they made.
func (b *bench) versions(ctx context.Context) (map[string]string, error) {
	versions := map[string]string{}
	apps, err := b.world.Metadata.Resource(applications()).Namespace(controlNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	deployments, err := b.world.Client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	ingresses, err := b.world.Client.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range apps.Items {
		versions["Application "+apps.Items[i].Name] = apps.Items[i].ResourceVersion
	}
	for i := range deployments.Items {
		versions["Deployment "+deployments.Items[i].Name] = deployments.Items[i].ResourceVersion
	}
	for i := range ingresses.Items {
		versions["Ingress "+ingresses.Items[i].Name] = ingresses.Items[i].ResourceVersion
	}
	return versions, nil
}

// drift changes Deployments, and waits until each is what Git says.
func (b *bench) drift(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	repairs := newRepairs()
	group, inGroup := errgroup.WithContext(ctx)
	following, stop := context.WithCancel(inGroup)
	group.Go(func() error { return repairs.watch(following, b.world) })
	group.Go(func() error {
		defer stop()
		tick := time.NewTicker(time.Second / driftRate)
		defer tick.Stop()
		for i := range min(b.settings.drift, b.world.apps) {
			if err := b.spoil(inGroup, i, repairs); err != nil {
				return err
			}
			<-tick.C
		}
		return repairs.wait(inGroup)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	b.figures.Drift = spreadOf(repairs.delays())
	b.tell("drift: %d objects repaired, %s", min(b.settings.drift, b.world.apps), b.figures.Drift)
	return nil
}

// spoil changes a field that Git sets.
func (b *bench) spoil(ctx context.Context, app int, repairs *repairs) error {
	patch := []byte(`{"spec":{"template":{"metadata":{"annotations":{"example.com/revision":"spoiled"}}}}}`)
	repairs.expect(nameOf(app))
	_, err := b.world.Client.AppsV1().Deployments(namespaceOf(app)).
		Patch(ctx, nameOf(app), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		return err
	}
	repairs.spoiled(nameOf(app))
	return nil
}
