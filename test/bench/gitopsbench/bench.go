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

	"slipway.dev/slipway/test/bench/ground"
)

const (
	// readyTimeout bounds the start of the agent, syncTimeout each later phase.
	readyTimeout = 3 * time.Minute
	syncTimeout  = 15 * time.Minute
	// after is the interval in which requests still count as caused by a
	// change, and the length of silence that quiet waits for.
	after = 5 * time.Second
	// driftRate is the number of objects changed per second. The ticker spreads
	// the changes, so that repairs do not queue behind each other.
	driftRate = 50
)

// bench measures one agent with one number of Applications. Phases run one
// after the other in one goroutine.
type bench struct {
	settings *settings
	world    *world
	agent    *agent
	profiles ground.Profiles
	out      io.Writer
	figures  *figures
}

// run watches the Applications while the phases run. The watch ends with the
// last phase, and its failure aborts the phases.
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

// phases runs all phases in order. The order matters: install and upgrade
// create the state that the later ones measure, and idle comes before one and
// drift so that their effects are not in it.
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
	// follow returns nil when its context is done, so group.Wait returns only a
	// real error of it.
	stop()
	return group.Wait()
}

// report prints one indented progress line.
func (b *bench) report(format string, args ...any) { fmt.Fprintf(b.out, "  "+format+"\n", args...) }

// start waits until the agent is ready and has reconciled every Application
// once. Their folders do not exist yet, so each gets a condition or message
// about that.
func (b *bench) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := b.agent.Await(ctx, 20*time.Millisecond, b.agent.ready); err != nil {
		return err
	}
	return b.world.until(ctx, b.world.apps, func(s appState) bool { return s.message != "" })
}

// all pushes a revision of every Application, waits until all are synced to it,
// and records time, CPU time, requests and memory.
func (b *bench) all(ctx context.Context, name, revision string, into *syncFigures) error {
	files := map[string]string{}
	for app := range b.world.apps {
		maps.Copy(files, b.settings.form.files(app, revision, b.world.repository.charts))
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	// The profile covers ten seconds. It starts before the push, so that it
	// includes the fetch of the commit.
	finish := b.profiles.CPU(ctx, name, 10*time.Second)
	// This resets the peak of the phase before.
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
		Memory: ground.Megabytes(settled), Peak: ground.Megabytes(most),
	}
	b.report("%s: all Synced after %.1f s; %.0f requests, %.0f renders, %.1f s CPU of the agent, memory %.0f MB, at most %.0f MB",
		name, into.Seconds, into.Requests, into.Renders, into.CPU, into.Memory, into.Peak)
	b.report("  requests by code, method and resource: %v", used)
	b.report("  processor time: %v", used.cpu)
	if name == "install" {
		b.figures.writes = installWrites{statuses: int(used.kinds["200 PATCH applications/status"]), events: int(used.kinds["201 POST events"])}
		if b.figures.writes.model, err = b.world.modelStatus(ctx); err != nil {
			return err
		}
	}
	if err := finish(); err != nil {
		return err
	}
	return b.profiles.Heap(ctx, name)
}

// push commits files, sends the webhook and waits until that many Applications
// are synced to the commit. The clock starts at the webhook: creating the
// commit is the work of the benchmark.
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
	// An Application is done when the comparison and the operation both refer
	// to the commit. Either alone may still show the previous one.
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

// one pushes a commit that touches one of the folders. All Applications share
// the repository, so the number of renders shows whether the agent detects
// which of them the commit concerns.
func (b *bench) one(ctx context.Context) error {
	// Requests of the phase before must not count here.
	if err := b.quiet(ctx); err != nil {
		return err
	}
	before, err := b.agent.counts(ctx)
	if err != nil {
		return err
	}
	_, took, err := b.push(ctx, b.settings.form.files(rand.IntN(b.world.apps), "v3", b.world.repository.charts), 1)
	if err != nil {
		return err
	}
	// Late requests count too: status writes and reads that follow the sync.
	if err := ground.Wait(ctx, after); err != nil {
		return err
	}
	done, err := b.agent.counts(ctx)
	if err != nil {
		return err
	}
	used := done.since(before)
	b.figures.One = oneFigures{Seconds: took.Seconds(), Requests: used.requests, Renders: used.renders}
	b.report("one of %d: Synced after %.2f s; %.0f renders, %.0f requests", b.world.apps, took.Seconds(), used.renders, used.requests)
	b.report("  requests by code, method and resource: %v", used)
	return nil
}

// settle sets the address of every Ingress, as an ingress controller would, and
// waits until all Applications are Healthy. An Application that stays
// Progressing is not idle: it becomes Degraded when its deadline ends, which is
// a status write.
func (b *bench) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	patch := []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`)
	for app := range b.world.apps {
		// The address has another field manager than the objects, as that of an
		// ingress controller would.
		_, err := b.world.Client.NetworkingV1().Ingresses(namespaceOf(app)).
			Patch(ctx, nameOf(app), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "somebody"}, "status")
		if err != nil {
			return err
		}
	}
	return b.world.until(ctx, b.world.apps, func(s appState) bool { return s.health == "Healthy" })
}

// quiet waits until the controllers have observed every Deployment and the
// agent has made almost no requests for the length of after. The cluster's
// controllers work at a bounded rate, and their late status writes would be
// watch events in a phase that must have none.
func (b *bench) quiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	last, err := b.agent.counts(ctx)
	for err == nil {
		if err = ground.Wait(ctx, after); err != nil {
			break
		}
		var now counts
		now, err = b.agent.counts(ctx)
		// Renewals of the leader election Lease never stop, so two requests per
		// second count as quiet.
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

// behind returns the number of Deployments whose observed generation is not the
// current one.
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

// idle counts the requests, the writes and the CPU time of an interval without
// changes. Requests alone would not show writes by others, so it also compares
// the resource versions of the objects.
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
	// These lists do not change the counters: the agent counts its own requests
	// only.
	writes, err := b.versions(ctx)
	if err != nil {
		return err
	}
	if err := ground.Wait(ctx, b.settings.idle); err != nil {
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
	// Objects that were deleted in the interval do not count; none should be.
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
		CPU: used.cpu.agent.Seconds() / length, Memory: ground.Megabytes(memory),
	}
	b.report("idle for %.0f s: %.2f requests per second, %d objects written, %.1f ms CPU per second, memory %.0f MB",
		length, b.figures.Idle.Requests, changed, 1000*b.figures.Idle.CPU, b.figures.Idle.Memory)
	b.report("  requests by code, method and resource: %v", used)
	return b.profiles.Heap(ctx, "idle")
}

// versions returns the resource versions of the Applications and of their
// Deployments and Ingresses. Names are unique over all namespaces, so they
// suffice as keys.
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

// drift changes Deployments in the cluster and waits until the agent has
// restored each of them to the state in Git.
func (b *bench) drift(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	repairs := newRepairs()
	group, inGroup := errgroup.WithContext(ctx)
	// The watch has a context of its own, so that it ends without an error when
	// all repairs are in.
	following, stop := context.WithCancel(inGroup)
	group.Go(func() error { return repairs.watch(following, b.world) })
	group.Go(func() error {
		defer stop()
		tick := time.NewTicker(time.Second / driftRate)
		defer tick.Stop()
		// Each Application is changed at most once, so a repair belongs to one
		// change.
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
	b.figures.Drift = ground.SpreadOf(repairs.delays())
	b.report("drift: %d objects repaired, %s", min(b.settings.drift, b.world.apps), b.figures.Drift.Text(0))
	return nil
}

// spoil changes a field of a Deployment that is set in Git. It registers the
// repair first, because the agent may be done before the patch returns.
func (b *bench) spoil(ctx context.Context, app int, repairs *repairs) error {
	patch := []byte(`{"spec":{"template":{"metadata":{"annotations":{"example.com/revision":"spoiled"}}}}}`)
	// The entry has to exist before the watch can deliver the change.
	repairs.expect(nameOf(app))
	_, err := b.world.Client.AppsV1().Deployments(namespaceOf(app)).
		Patch(ctx, nameOf(app), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		return err
	}
	repairs.spoiled(nameOf(app))
	return nil
}
