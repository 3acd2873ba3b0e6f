package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	"sigs.k8s.io/yaml"
)

// helmTimeout bounds one Helm action including its wait. It is longer than the
// timeout of other steps, because an install waits for images, probes and Jobs.
const helmTimeout = 4 * time.Minute

// helmRelease identifies a release: the folder of its chart, its name and its
// namespace.
type helmRelease struct{ chart, name, namespace string }

// helm returns a Helm configuration for a release that stores its state in
// Secrets, the default of Helm. Its log is discarded; errors are returned.
func (s *scene) helm(release helmRelease) (*action.Configuration, error) {
	settings := cli.New()
	settings.KubeConfig = s.node.Kubeconfig
	settings.SetNamespace(release.namespace)
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.NewTextHandler(io.Discard, nil)))
	return config, config.Init(settings.RESTClientGetter(), release.namespace, "secret")
}

// apply installs a release with values in YAML, and waits until all objects and
// Jobs are ready. It uses Helm's library, so no helm binary is needed.
func (s *scene) apply(ctx context.Context, release helmRelease, text string) error {
	config, err := s.helm(release)
	if err != nil {
		return err
	}
	chart, err := loader.LoadDir(filepath.Join(s.root, "charts", release.chart))
	if err != nil {
		return err
	}
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		return fmt.Errorf("the values: %w", err)
	}
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = release.name, release.namespace, true
	install.WaitStrategy, install.WaitForJobs, install.Timeout = kube.StatusWatcherStrategy, true, helmTimeout
	_, err = install.RunWithContext(ctx, chart, values)
	return err
}

// remove uninstalls a release and waits until its objects are gone. Foreground
// propagation makes owners wait for their dependents, so no Pod outlives the
// call.
func (s *scene) remove(release helmRelease) error {
	config, err := s.helm(release)
	if err != nil {
		return err
	}
	uninstall := action.NewUninstall(config)
	uninstall.WaitStrategy, uninstall.Timeout, uninstall.DeletionPropagation = kube.StatusWatcherStrategy, helmTimeout, "foreground"
	_, err = uninstall.Run(release.name)
	return err
}
