// Package notifycmd is the command slipway notifications: triggers and templates of
// notifications, listed and tried out as argocd admin notifications does.
//
//	notify     flags, settings, the Application that is tried
//	get        lists settings of a kind
//	trigger    get and run
//	template   get and notify
//
// Settings come from the ConfigMap and the Secret of the cluster, by the code that the
// agent reads them with, or from files. Nothing is recorded: a message that is sent here
// does not count as one of the agent.
package notifycmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/notify"
	"slipway.dev/slipway/internal/gitops/notify/message"
	"slipway.dev/slipway/internal/gitops/notify/service"
	"slipway.dev/slipway/internal/kube"
)

// emptySecret stands for no Secret, with the word of argocd.
const emptySecret = ":empty"

// maxFile bounds the files that are read.
const maxFile = 4 << 20

// access holds the flags of the group.
type access struct {
	choice            kube.UserChoice
	namespace         string
	configMap, secret string
	// routes and problems are what the edges serve, for triggers about it.
	routes, problems []string
	cluster          *kube.Cluster
}

// Command returns the command slipway notifications.
func Command() *cobra.Command {
	a := &access{}
	command := &cobra.Command{
		Use:     "notifications",
		Aliases: []string{"notification"},
		Short:   "List and try out triggers and templates of notifications",
		Long: `List and try out triggers and templates of notifications, as argocd admin notifications does.

The settings are those of argocd-notifications-cm and argocd-notifications-secret in the control
namespace of the agent, or of the files that --config-map and --secret name. They are read as
the agent does: parts without effect are reported on standard error.`,
	}
	flags := command.PersistentFlags()
	kubeflags.Add(flags, &a.choice)
	flags.StringVarP(&a.namespace, "namespace", "n", "", "control namespace of the agent (default that of the context)")
	flags.StringVar(&a.configMap, "config-map", "", "file with the ConfigMap, in place of the one in the cluster")
	flags.StringVar(&a.secret, "secret", "", "file with the Secret, in place of the one in the cluster; "+emptySecret+" for none")
	command.AddCommand(triggerCommand(a), templateCommand(a))
	return command
}

// addEdge adds the flags with what the edges serve, which the command does not read from them.
func (a *access) addEdge(command *cobra.Command) {
	command.Flags().StringSliceVar(&a.routes, "edge-route", nil, "host and path of a route that the edges serve, for the variable edge")
	command.Flags().StringSliceVar(&a.problems, "edge-problem", nil, "problem of a certificate, for the variable edge")
}

// edge is the variable edge; nil without the flags.
func (a *access) edge() *message.Edge {
	if a.routes == nil && a.problems == nil {
		return nil
	}
	return &message.Edge{Routes: append([]string{}, a.routes...), Problems: append([]string{}, a.problems...)}
}

// connect opens the cluster, for the first that needs it.
func (a *access) connect() (*kube.Cluster, error) {
	if a.cluster == nil {
		cluster, err := kubeflags.Connect(a.choice)
		if err != nil {
			return nil, err
		}
		a.cluster, a.namespace = cluster, cmp.Or(a.namespace, cluster.Namespace)
	}
	return a.cluster, nil
}

// close closes the cluster.
func (a *access) close() {
	if a.cluster != nil {
		a.cluster.Close()
	}
}

// settings reads the ConfigMap and the Secret, and reports what has no effect.
func (a *access) settings(command *cobra.Command) (*notify.Settings, error) {
	ctx, cancel := context.WithTimeout(command.Context(), kubeflags.RequestTimeout)
	defer cancel()
	configMap, err := a.readConfigMap(ctx)
	if err != nil {
		return nil, err
	}
	secret, err := a.readSecret(ctx, command)
	if err != nil {
		return nil, err
	}
	settings := notify.Read(configMap, secret, service.NewClients(nil))
	for _, problem := range settings.Problems {
		printer.Note(command, "%s", problem)
	}
	return settings, nil
}

// readConfigMap reads the ConfigMap of a file or of the cluster. Without one the built-in
// triggers are left.
func (a *access) readConfigMap(ctx context.Context) (*corev1.ConfigMap, error) {
	if a.configMap != "" {
		return readObject[corev1.ConfigMap](a.configMap, "ConfigMap")
	}
	cluster, err := a.connect()
	if err != nil {
		return nil, err
	}
	found, err := cluster.Client.CoreV1().ConfigMaps(a.namespace).Get(ctx, notify.ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the namespace %s has no ConfigMap %s: choose the control namespace with -n, or a file with --config-map", a.namespace, notify.ConfigMap)
	}
	if err != nil {
		return nil, fmt.Errorf("read the ConfigMap %s: %w", notify.ConfigMap, err)
	}
	return found, nil
}

// readSecret reads the Secret of a file or of the cluster. Who may not read it can still
// try out templates.
func (a *access) readSecret(ctx context.Context, command *cobra.Command) (*corev1.Secret, error) {
	switch {
	case a.secret == emptySecret:
		return nil, nil
	case a.secret != "":
		secret, err := readObject[corev1.Secret](a.secret, "Secret")
		if err != nil {
			return nil, err
		}
		// The API server moves these to data.
		for key, value := range secret.StringData {
			if secret.Data == nil {
				secret.Data = map[string][]byte{}
			}
			secret.Data[key] = []byte(value)
		}
		return secret, nil
	// Settings of a file are tried without a cluster.
	case a.configMap != "":
		return nil, nil
	}
	cluster, err := a.connect()
	if err != nil {
		return nil, err
	}
	found, err := cluster.Client.CoreV1().Secrets(a.namespace).Get(ctx, notify.Secret, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		printer.Note(command, "You may not read the Secret %s: services have no credentials.", notify.Secret)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the Secret %s: %w", notify.Secret, err)
	}
	return found, nil
}

// readObject reads the first document of a kind of a file.
func readObject[T any](path, kind string) (*T, error) {
	text, err := files.ReadBounded(path, maxFile)
	if err != nil {
		return nil, err
	}
	for document := range strings.SplitSeq("\n"+string(text), "\n---") {
		var typed metav1.TypeMeta
		if yaml.Unmarshal([]byte(document), &typed) != nil || typed.Kind != kind {
			continue
		}
		into := new(T)
		return into, yaml.Unmarshal([]byte(document), into)
	}
	return nil, fmt.Errorf("the file %s has no %s", path, kind)
}

// trial reads the settings, and the Application that a name or a file stands for.
func (a *access) trial(command *cobra.Command, named string) (*notify.Trial, error) {
	settings, err := a.settings(command)
	if err != nil {
		return nil, err
	}
	made := &notify.Trial{Settings: settings, Edge: a.edge()}
	if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(named)) {
		object, err := readObject[map[string]any](named, v1alpha1.KindApplication)
		if err != nil {
			return nil, err
		}
		made.Application = &unstructured.Unstructured{Object: *object}
		return made, nil
	}
	return made, a.readApplication(command.Context(), named, made)
}

// readApplication reads an Application and its project from the cluster.
func (a *access) readApplication(ctx context.Context, named string, into *notify.Trial) error {
	cluster, err := a.connect()
	if err != nil {
		return err
	}
	namespace, name, both := strings.Cut(named, "/")
	if !both {
		namespace, name = a.namespace, named
	}
	ctx, cancel := context.WithTimeout(ctx, kubeflags.RequestTimeout)
	defer cancel()
	if into.Application, err = cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("read the Application %s/%s: %w", namespace, name, err)
	}
	project, _, _ := unstructured.NestedString(into.Application.Object, "spec", "project")
	into.Project, err = cluster.Dynamic.Resource(v1alpha1.ProjectResource()).Namespace(a.namespace).Get(ctx, cmp.Or(project, v1alpha1.DefaultProject), metav1.GetOptions{})
	// A project that is missing or not readable is empty for templates.
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		into.Project = nil
		return nil
	}
	return err
}

// errTwoNames is the usage of commands that try something out.
var errTwoNames = errors.New("name it, and an Application: its name, NAMESPACE/NAME, or a file that ends with .yaml")

// twoNames is the argument check of these commands.
func twoNames(_ *cobra.Command, args []string) error {
	if len(args) != 2 {
		return errTwoNames
	}
	return nil
}
