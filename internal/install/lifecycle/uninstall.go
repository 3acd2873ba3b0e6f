package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/install/handover"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// DefaultUninstallTimeout bounds each of the two waits of an uninstall.
const DefaultUninstallTimeout = 5 * time.Minute

// UninstallOptions describe what is removed with a runtime.
type UninstallOptions struct {
	// Connect connects to the cluster; the uninstall closes what it returns.
	Connect            func() (*kube.Cluster, error)
	Release, Namespace string
	// NamespaceGiven is set if the user chose the namespace.
	NamespaceGiven bool
	// CleanRepository removes the runtime's files from the Shared Configuration
	// Repository, and GitSources its Git Sources from the cluster.
	CleanRepository, GitSources bool
	// Force goes on without a runtime or a platform that cannot be reached.
	Force       bool
	Yes, DryRun bool
	// Print is helm to have the runtime clean up, and to print what removes it then.
	Print   string
	Timeout time.Duration
}

// uninstallation is one uninstall. It is used by one goroutine.
type uninstallation struct {
	ui       UI
	options  *UninstallOptions
	platform Platform // nil if none is chosen
	name     string
	// registered is the registration at the platform; nil if there is none, or no more.
	registered *platformv1.Runtime
	// sources are the Git Sources that it had.
	sources []*platformv1.GitSourceSummary
	cluster *kube.Cluster
	client  *release.Client
}

// Uninstall removes a runtime: the runtime cleans up and leaves the platform, the
// Helm release is deleted, and what is left is shown with the command that removes
// it. What the runtime has delivered stays. platform is nil if none is chosen.
func Uninstall(ctx context.Context, ui UI, platform Platform, name string, options *UninstallOptions) error {
	u := &uninstallation{ui: ui, options: options, platform: platform, name: name}
	if err := u.lookup(ctx); err != nil {
		return err
	}
	// The printed command needs no access to the cluster from here.
	if options.Print != "" {
		return u.printRest(ctx)
	}
	if err := u.open(ctx); err != nil {
		return err
	}
	defer u.cluster.Close()
	if err := u.show(ctx); err != nil || options.DryRun {
		return err
	}
	if err := ui.Confirm("Uninstall the runtime "+name+"?", options.Yes); err != nil {
		return err
	}
	// The runtime leaves first, while its agent still runs and can clean up.
	if err := u.leave(ctx); err != nil {
		return err
	}
	// Before the agent ends: an Application that it still reconciles would bring back
	// what Helm deletes.
	if err := u.deleteApplications(ctx); err != nil {
		return err
	}
	removed, err := u.client.Remove(ctx, options.Timeout)
	// After that nothing stops at an error: as much as possible is removed, and the
	// rest is shown.
	problems := []error{err, u.deleteApplications(ctx)}
	u.unregister(ctx)
	// Leftovers are read last, when everything that can be deleted is gone.
	left, err := u.client.Leftovers(ctx, removed.Definitions)
	problems = append(problems, err, ui.ShowLeftovers(append(left, u.elsewhere(ctx)...)))
	if err := errors.Join(problems...); err != nil {
		return err
	}
	ui.Note("The runtime %s is uninstalled.", name)
	return nil
}

// find returns the registration at the platform, nil if there is none.
func (u *uninstallation) find(ctx context.Context) (*platformv1.Runtime, error) {
	if u.platform == nil {
		return nil, nil
	}
	return u.platform.FindRuntime(ctx, u.name)
}

// lookup reads the registration at the platform.
func (u *uninstallation) lookup(ctx context.Context) error {
	if u.options.Print != "" && u.options.Print != "helm" {
		return InvalidError{fmt.Errorf("--print %q is not helm", u.options.Print)}
	}
	registered, err := u.find(ctx)
	// With Force, registered stays nil without the platform, and only the
	// cluster is cleaned up.
	if err != nil && !u.options.Force {
		return fmt.Errorf("%w; --force goes on without the platform", err)
	}
	u.registered, u.sources = registered, registered.GetGitSources()
	if registered != nil && !u.options.NamespaceGiven && registered.GetNamespace() != "" {
		u.options.Namespace = registered.GetNamespace()
	}
	return nil
}

// printRest has the runtime clean up, and prints what has to be done in its cluster
// then.
func (u *uninstallation) printRest(ctx context.Context) error {
	if u.registered == nil {
		return fmt.Errorf("the platform has no runtime %s", u.name)
	}
	if err := u.ui.Confirm("Have the runtime "+u.name+" clean up and leave?", u.options.Yes); err != nil {
		return err
	}
	if err := u.platform.UninstallRuntime(ctx, u.request()); err != nil {
		return err
	}
	u.ui.Note("%s cleans up when it receives the request. Then run in its cluster:", u.name)
	_, err := fmt.Fprintf(u.ui.Output(), "helm uninstall %s --namespace %s\n", handover.ShellWord(u.options.Release), handover.ShellWord(u.options.Namespace))
	return err
}

// request returns the request that has the runtime clean up, on the user's
// choice also in the Shared Configuration Repository.
func (u *uninstallation) request() *platformv1.UninstallRuntimeRequest {
	return &platformv1.UninstallRuntimeRequest{Name: u.name, CleanSharedRepository: u.options.CleanRepository}
}

// open connects to the cluster, and refuses a release of another runtime.
func (u *uninstallation) open(ctx context.Context) (err error) {
	if u.cluster, err = u.options.Connect(); err != nil {
		return InvalidError{fmt.Errorf("%w; --print helm prints what a user with access to the cluster has to run", err)}
	}
	defer func() {
		if err != nil {
			u.cluster.Close()
		}
	}()
	place := release.Place{Release: u.options.Release, Namespace: u.options.Namespace}
	u.client, err = release.Open(u.cluster, place, func(line string) { u.ui.Note("%s", line) })
	if err != nil {
		return err
	}
	current, err := u.client.Current(ctx)
	// A release that is missing is probably in another cluster or has another
	// name, so it is an error without Force.
	switch {
	case err != nil:
		return err
	case current == nil && u.registered == nil:
		return fmt.Errorf("there is no release %s in this cluster, and no platform has the runtime %s: choose the cluster with --context, or name the release with --release and --namespace", place, u.name)
	case current == nil && !u.options.Force:
		return fmt.Errorf("there is no release %s in this cluster: choose the cluster with --context, or the release with --release and --namespace; --force goes on, and has the platform forget the runtime", place)
	case current == nil:
		return nil
	}
	// The release may be of another runtime, which must not be deleted under
	// this name.
	if is := values.New(values.Runtime(), current.Values).Text(values.KeyRuntimeName); is != u.name {
		return InvalidError{fmt.Errorf("the release %s is the runtime %s, and not %s: choose the cluster and the namespace of %s", place, is, u.name, u.name)}
	}
	return nil
}

// show shows what will be deleted.
func (u *uninstallation) show(ctx context.Context) error {
	objects, err := u.client.Objects(ctx)
	if err != nil {
		return err
	}
	if err := u.ui.ShowRemoval(objects); err != nil {
		return err
	}
	switch {
	case u.registered == nil:
		u.ui.Note("The platform does not have the runtime: nothing is done there.")
	case u.registered.GetOnline():
		u.ui.Note("The runtime cleans up first, and leaves the platform.")
	default:
		seen := "-"
		if at := u.registered.GetLastHeartbeatAt(); at != nil && at.AsTime().Unix() != 0 {
			seen = at.AsTime().UTC().Format(time.RFC3339)
		}
		u.ui.Note("The runtime is offline since %s, and cannot clean up.", seen)
	}
	return nil
}

// leave has an online runtime clean up, and waits until its registration is gone.
func (u *uninstallation) leave(ctx context.Context) error {
	if u.registered == nil {
		return nil
	}
	// An offline runtime does not receive the request.
	if !u.registered.GetOnline() {
		if !u.options.Force {
			return errors.New("the runtime is offline and cannot clean up: bring it back, or add --force, and the platform forgets it and its files in the Shared Configuration Repository stay")
		}
		return nil
	}
	if err := u.platform.UninstallRuntime(ctx, u.request()); err != nil {
		return err
	}
	u.ui.Note("waiting until the runtime %s has cleaned up and left", u.name)
	// An error of the platform counts as still registered, and the timeout ends
	// the wait.
	waiting := errors.New("it is still registered")
	err := poll(ctx, u.options.Timeout, func(ctx context.Context) (bool, error) {
		if found, err := u.find(ctx); err != nil || found != nil {
			return false, waiting
		}
		return false, nil
	})
	switch {
	case err == nil:
		u.registered = nil
		return nil
	case ctx.Err() != nil:
		// An interrupt wins over Force.
		return context.Cause(ctx)
	case u.options.Force:
		u.ui.Note("It has not left within %s. Going on, because of --force.", u.options.Timeout.String())
		return nil
	}
	return fmt.Errorf("the runtime has not cleaned up within %s: slipway runtime logs %s shows why; --force goes on without", u.options.Timeout, u.name)
}

// deleteApplications deletes the Applications that the runtime made for itself,
// and the Git Sources if they were requested. No agent reconciles them any
// more, so what they delivered stays. One with a finalizer is left and
// reported: nothing would ever remove the finalizer.
func (u *uninstallation) deleteApplications(ctx context.Context) error {
	client := u.cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(u.options.Namespace)
	found, err := client.List(ctx, metav1.ListOptions{LabelSelector: sharedrepo.RuntimeLabel + "=" + u.name})
	// Without the CRD there are no Applications.
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the Applications of the runtime: %w", err)
	}
	var problems []error
	for i := range found.Items {
		one := &found.Items[i]
		labels := one.GetLabels()
		// The runtime created the internal Applications, and users created the
		// Git Sources, which go only on request.
		ours := labels[sharedrepo.InternalLabel] == "true" || u.options.GitSources && labels[sharedrepo.EntityLabel] == sharedrepo.EntityGitSource
		if !ours || len(one.GetFinalizers()) > 0 {
			continue
		}
		if err := client.Delete(ctx, one.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			problems = append(problems, fmt.Errorf("delete the Application %s/%s: %w", u.options.Namespace, one.GetName(), err))
		}
	}
	return errors.Join(problems...)
}

// unregister deletes the registration of a runtime that could not leave. The platform
// refuses while it takes the runtime for online; elsewhere reports it then.
func (u *uninstallation) unregister(ctx context.Context) {
	if u.registered == nil {
		return
	}
	if err := u.platform.DeleteRuntime(ctx, u.name); err == nil {
		u.registered = nil
	}
}

// elsewhere returns what is left outside of the cluster.
func (u *uninstallation) elsewhere(ctx context.Context) []release.Leftover {
	var all []release.Leftover
	registered, _ := u.find(ctx) // an unreachable platform was reported before
	if registered != nil {
		all = append(all, release.Leftover{Kind: "Runtime", Name: u.name, Why: "the platform takes it for online for a while", Command: "slipway runtime delete " + u.name})
	}
	// The Git host keeps its webhooks, so one is listed for each Git Source.
	for _, source := range u.sources {
		all = append(all, release.Leftover{
			Kind: "Webhook", Name: source.GetRepoUrl(), Why: "the Git host may still send events to the runtime",
			Command: fmt.Sprintf("delete it in the settings of the repository: its address ends in /webhooks/%s/%s", u.name, source.GetName()),
		})
	}
	return all
}
