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

// helmTimeout bounds one action of Helm with its wait.
const helmTimeout = 4 * time.Minute

// helmRelease is a chart in a namespace, as a user of Helm has it.
type helmRelease struct{ chart, name, namespace string }

func (s *scene) helm(release helmRelease) (*action.Configuration, error) {
	settings := cli.New()
	settings.KubeConfig = s.node.Kubeconfig
	settings.SetNamespace(release.namespace)
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.NewTextHandler(io.Discard, nil)))
	return config, config.Init(settings.RESTClientGetter(), release.namespace, "secret")
}

// apply installs a release, and waits until everything is ready.
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

// remove uninstalls a release and waits until its objects are gone.
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
