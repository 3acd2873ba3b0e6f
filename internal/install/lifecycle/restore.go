package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// resumeTimeout is how long a restored runtime may take to accept its Git token, and
// then to follow the repository, each.
const resumeTimeout = 3 * time.Minute

// RestoreOptions describe from where a runtime is restored.
type RestoreOptions struct {
	InstallOptions
	// From is the Shared Configuration Repository, and Access what opens it.
	From   wire.SharedRepository
	Access remote.Access
	// Credentials are what the runtime gets for the repository; nil for nothing.
	Credentials *runtimev1.SetRuntimeCredentialsRequest
}

// Restore installs a runtime whose cluster is lost on a new one, from what the Shared
// Configuration Repository has of it. A runtime that is online is refused: two of a
// name would fight for the same Applications.
func Restore(ctx context.Context, ui UI, platform Platform, name string, options *RestoreOptions) error {
	if err := sharedrepo.CheckRuntime(name); err != nil {
		return InvalidError{err}
	}
	old, err := platform.FindRuntime(ctx, name)
	if err != nil {
		return err
	}
	if old.GetOnline() {
		return fmt.Errorf("the runtime %s is online in the cluster %s: a second one of this name would fight with it; uninstall that one, or wait until it is offline", name, old.GetCluster())
	}
	if err := options.checkRepository(ctx, ui, platform); err != nil {
		return err
	}
	found, err := readBackup(ctx, options.From, options.Access, name)
	if err != nil {
		return err
	}
	if !found.found {
		return fmt.Errorf("the repository has no runtime %s: it has %s", name, listOf(found.runtimes))
	}
	// registered is set because the name stays taken by the old registration
	// until replaceOld deletes it.
	o := &operation{ui: ui, options: &options.Options, platform: platform, registered: true}
	// The runtime keeps its namespace unless the user chose another.
	if !options.NamespaceGiven && old.GetNamespace() != "" {
		options.Namespace = old.GetNamespace()
	}
	if err := options.prepare(ctx, o, name, found, old); err != nil {
		return err
	}
	defer o.close()
	// A dry run has installed nothing that could resume.
	if err := o.run(ctx); err != nil || options.DryRun {
		return err
	}
	return options.resume(ctx, o)
}

// checkRepository refuses a repository that is not the account's: the runtime would
// follow the account's.
func (g *RestoreOptions) checkRepository(ctx context.Context, ui UI, platform Platform) error {
	settings, err := platform.GitSettings(ctx)
	if err != nil {
		return err
	}
	text := settings.GetSharedRepository()
	if text == "" {
		ui.Note("The account has no Shared Configuration Repository: the runtime follows none until its Git settings are given.")
		return nil
	}
	// Settings that cannot be parsed do not stop a restore: the user has named
	// the repository.
	if is, err := wire.ParseSharedRepository(text); err == nil && is != g.From {
		return InvalidError{fmt.Errorf("the Shared Configuration Repository of the account is %s: a runtime would follow that one; name it with --from", is.String())}
	}
	return nil
}

// prepare makes an installation of the backup. A caller that gets no error closes
// the operation.
func (g *RestoreOptions) prepare(ctx context.Context, o *operation, name string, found *backup, old *platformv1.Runtime) (err error) {
	if found.values == nil {
		o.ui.Note("The repository has no values of the runtime, because it was not an Application of itself: those of the command line are used.")
	}
	// The archived chart is the one that the values were made for. It is used
	// unless the user names another chart or version.
	if g.Chart == "" && len(found.archive) > 0 && (g.Version == "" || g.Version == found.version) {
		o.chart, err = release.ReadChart(found.archive)
	} else {
		o.chart, err = g.findChart(ctx)
	}
	if err != nil {
		return err
	}
	// Merged without flags first: which flags become values depends on what the
	// backup has.
	if err := o.mergeValues(found.values, nil); err != nil {
		return err
	}
	if is := strings.TrimSuffix(o.document.Text(values.KeyPlatformURL), "/"); is != "" && is != o.platform.BaseURL() {
		return InvalidError{fmt.Errorf("the runtime belongs to the platform %s, and you are at %s: choose its context with --platform-context, or add --set %s=%s if it has moved", is, o.platform.BaseURL(), values.KeyPlatformURL, o.platform.BaseURL())}
	}
	flags, err := g.values(ctx, o, name)
	if err != nil {
		return err
	}
	// The registration has the role even if the values of the backup do not
	// have it.
	if old.GetConfigurationRuntime() {
		flags = append(flags, configurationRuntime)
	}
	if err := o.mergeValues(found.values, flags); err != nil {
		return err
	}
	if err := o.open(); err != nil {
		return err
	}
	current, err := o.client.Current(ctx)
	// A failed release counts as well: a restore never continues one.
	if err == nil && current != nil {
		err = fmt.Errorf("the release %s/%s is in this cluster already: restore is for a new cluster", g.Namespace, g.Release)
	}
	if err == nil {
		err = g.prepareSecrets(ctx, o)
	}
	// The caller closes the operation only if there is no error.
	if err != nil {
		o.close()
		return err
	}
	o.ui.Note("The repository has the runtime at commit %s, with chart %s and the Git Sources %s.", cmp.Or(shortCommit(found.commit), "-"), cmp.Or(found.version, "-"), listOf(found.sources))
	o.unregisterOnFailure()
	o.replaceOld(name, old)
	return nil
}

// replaceOld deletes the registration of the old runtime after the user has agreed:
// a name belongs to one cluster. The key is created after it, because a deletion
// that fails must leave nothing behind.
func (o *operation) replaceOld(name string, old *platformv1.Runtime) {
	o.question = fmt.Sprintf("Restore the runtime %s?", name)
	o.done = fmt.Sprintf("The runtime %s is restored.", name)
	// Without an old registration a key is created as in an installation.
	if old == nil {
		return
	}
	seen := "-"
	if at := old.GetLastHeartbeatAt(); at != nil && at.AsTime().Unix() != 0 {
		seen = at.AsTime().UTC().Format(time.RFC3339)
	}
	o.ui.Note("The platform forgets the old one of the cluster %s, last seen %s.", cmp.Or(old.GetCluster(), "-"), seen)
	createKey := o.confirmed
	o.confirmed = func(ctx context.Context) error {
		if err := o.platform.DeleteRuntime(ctx, name); err != nil {
			return err
		}
		if createKey != nil {
			return createKey(ctx)
		}
		return nil
	}
}

// resume gives the runtime its Git token, and waits until it follows the repository
// again.
func (g *RestoreOptions) resume(ctx context.Context, o *operation) error {
	name := o.name()
	if g.Credentials == nil {
		o.ui.Note("It takes its Applications back when it has its Git token: slipway integration git set-runtime-token --runtime %s --token-file FILE", name)
		return nil
	}
	// The runtime may take a moment until it is reached, so the request is
	// retried.
	err := poll(ctx, resumeTimeout, func(ctx context.Context) (bool, error) {
		return o.platform.SetRuntimeCredentials(ctx, name, g.Credentials)
	})
	if err != nil {
		return fmt.Errorf("the runtime runs, and does not take its Git token: %w; give it with slipway integration git set-runtime-token --runtime %s --token-file FILE", err, name)
	}
	o.ui.Note("waiting until the runtime follows the Shared Configuration Repository")
	// The agent creates this Application once it has read the repository.
	err = poll(ctx, resumeTimeout, func(ctx context.Context) (bool, error) {
		_, err := o.cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(g.Namespace).Get(ctx, sharedrepo.InClusterName(name), metav1.GetOptions{})
		return false, err
	})
	if err != nil {
		return fmt.Errorf("the runtime runs, and does not follow the Shared Configuration Repository yet: %w; see slipway runtime get %s", err, name)
	}
	o.ui.Note("It takes its Applications back: slipway app list --runtime %s shows them.", name)
	return nil
}

// shortCommit abbreviates a commit.
func shortCommit(commit string) string { return commit[:min(len(commit), 7)] }

// listOf joins names, and counts those beyond the first eight.
func listOf(names []string) string {
	const shown = 8
	switch {
	case len(names) == 0:
		return "-"
	case len(names) <= shown:
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
