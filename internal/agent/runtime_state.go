package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/agent/report"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Heartbeat returns the state of the runtime for the platform. A part that
// cannot be read is left out and named in the health message: the heartbeat
// itself matters more.
func (r *platformRuntime) Heartbeat(ctx context.Context) (*platformv1.HeartbeatRequest, error) {
	message := &platformv1.HeartbeatRequest{Health: platformv1.HealthStatus_HEALTH_STATUS_HEALTHY}
	var problems []string
	// note records a part that could not be read.
	note := func(what string, err error) {
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s cannot be read: %v", what, err))
		}
	}
	components, err := r.components(ctx)
	note("the components", err)
	message.Components = components
	note("the Git Sources", r.addGitSources(ctx, message))
	for _, one := range r.clusters.Others(ctx) {
		message.Clusters = append(message.Clusters, &platformv1.ManagedClusterSummary{
			Name: one.GetName(), Server: one.GetServer(), Version: one.GetVersion(), Status: one.GetStatus(), Message: one.GetMessage(),
		})
	}
	message.PendingSteps, err = r.integrations.Pending(ctx)
	note("the Git credentials", err)
	if err := r.integrations.InstalledProblem(); err != nil {
		problems = append(problems, err.Error())
	}
	if err := r.sharedRepository.Problem(); err != nil {
		problems = append(problems, err.Error())
	}
	if expires, err := r.integrations.RuntimeExpiry(ctx); err == nil {
		message.GitTokenExpiresAt = wire.Timestamp(expires)
	}
	message.Rights = r.rights.report()
	message.SharedRepository = r.sharedRepository.ReadyRepository()
	message.SharedRepositoryValid = message.SharedRepository != ""
	note("the runtime's Application", r.addOwnApplication(ctx, message))
	// Components that are not healthy decide the health of the runtime.
	for _, one := range message.Components {
		if one.GetHealth() != platformv1.HealthStatus_HEALTH_STATUS_HEALTHY {
			message.Health = one.GetHealth()
			problems = append(problems, one.GetName()+": "+one.GetHealthMessage())
		}
	}
	message.HealthMessage = strings.Join(problems, "; ")
	return message, nil
}

// components returns the Deployments of the runtime, or else this process and
// the edges that it reads traffic from: then no chart has installed the runtime.
func (r *platformRuntime) components(ctx context.Context) ([]*platformv1.Component, error) {
	deployments := r.agent.options.Cluster.Client.AppsV1().Deployments(r.agent.options.Cluster.Namespace)
	list, err := deployments.List(ctx, metav1.ListOptions{LabelSelector: appproxy.ComponentSelector})
	if err != nil {
		return nil, err
	}
	var components []*platformv1.Component
	for i := range list.Items {
		components = append(components, component(&list.Items[i]))
	}
	if len(components) == 0 {
		components = r.processes(ctx)
	}
	return components, nil
}

// processes returns the components of a runtime that runs as processes, such as
// that of slipway up.
func (r *platformRuntime) processes(ctx context.Context) []*platformv1.Component {
	components := []*platformv1.Component{{
		Name: "slipway-agent", Version: r.runtimeOptions.Version, Health: platformv1.HealthStatus_HEALTH_STATUS_HEALTHY,
	}}
	for _, edge := range r.traffic.Edges(ctx) {
		one := &platformv1.Component{Name: "slipway-edge", Version: edge.GetVersion(), Health: platformv1.HealthStatus_HEALTH_STATUS_HEALTHY}
		if !edge.GetReady() {
			one.Health, one.HealthMessage = platformv1.HealthStatus_HEALTH_STATUS_PROGRESSING, edge.GetAddress()+": "+edge.GetProblem()
		}
		components = append(components, one)
	}
	return components
}

// component converts a Deployment. It is Progressing until all wanted replicas
// of its last generation are available.
func component(of *appsv1.Deployment) *platformv1.Component {
	one := &platformv1.Component{
		Name: of.Name, Version: of.Labels["app.kubernetes.io/version"], Health: platformv1.HealthStatus_HEALTH_STATUS_HEALTHY,
	}
	wanted := int32(1)
	if of.Spec.Replicas != nil {
		wanted = *of.Spec.Replicas
	}
	if of.Status.AvailableReplicas < wanted || of.Status.ObservedGeneration < of.Generation {
		one.Health = platformv1.HealthStatus_HEALTH_STATUS_PROGRESSING
		one.HealthMessage = fmt.Sprintf("%d of %d replicas are available", of.Status.AvailableReplicas, wanted)
	}
	return one
}

// addGitSources adds the Git Sources to a heartbeat.
func (r *platformRuntime) addGitSources(ctx context.Context, message *platformv1.HeartbeatRequest) error {
	found, err := r.gitSources.Live(ctx)
	for _, one := range found {
		message.GitSources = append(message.GitSources, &platformv1.GitSourceSummary{
			Name: one.GetName(), RepoUrl: one.GetRepoUrl(), Path: one.GetPath(), Revision: one.GetRevision(),
			Health: healthOf(one.GetHealth()), Sync: syncOf(one.GetSync()), Message: one.GetMessage(), Project: one.GetProject(),
		})
	}
	return err
}

// addOwnApplication adds the sync status of the runtime's own Application, if
// there is one. Its components have the same status.
func (r *platformRuntime) addOwnApplication(ctx context.Context, message *platformv1.HeartbeatRequest) error {
	selector := sharedrepo.EntityLabel + "=" + sharedrepo.EntityRuntime + "," + sharedrepo.RuntimeLabel + "=" + r.runtimeOptions.Name
	list, err := r.sharedRepository.Applications().List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: 1})
	if err != nil || len(list.Items) == 0 {
		return err
	}
	app := r.decodeApplication(&list.Items[0])
	if app == nil {
		return nil
	}
	message.Sync = syncOf(string(app.Status.Sync.Status))
	for _, one := range message.Components {
		one.Sync = message.Sync
	}
	return nil
}

// syncOf converts Argo CD's sync status to the platform's.
func syncOf(word string) platformv1.SyncStatus {
	switch v1alpha1.SyncStatusCode(word) {
	case v1alpha1.SyncSynced:
		return platformv1.SyncStatus_SYNC_STATUS_SYNCED
	case v1alpha1.SyncOutOfSync:
		return platformv1.SyncStatus_SYNC_STATUS_OUT_OF_SYNC
	}
	return platformv1.SyncStatus_SYNC_STATUS_UNKNOWN
}

// healthOf converts Argo CD's health to the platform's.
func healthOf(word string) platformv1.HealthStatus {
	number, known := platformv1.HealthStatus_value["HEALTH_STATUS_"+strings.ToUpper(word)]
	if !known {
		return platformv1.HealthStatus_HEALTH_STATUS_UNKNOWN
	}
	return platformv1.HealthStatus(number)
}

// watchApplications passes each change of an Application to the reporter, and
// all of them to the recorder of traffic, until the context is done.
func (r *platformRuntime) watchApplications(ctx context.Context) {
	var watches sync.WaitGroup
	for _, namespace := range r.namespaces() {
		// One watch for each namespace: the agent may have rights in these
		// only.
		watches.Go(func() {
			seen := map[types.UID]*unstructured.Unstructured{}
			failed := r.logOnce("the Applications for the platform", nil)
			_ = kube.Follow(ctx, r.applicationsOf(namespace), listEverything(), failed, func(found []*unstructured.Unstructured) {
				r.recorder.SetApplications(namespace, found)
				r.reportChanges(seen, found)
			})
		})
	}
	watches.Wait()
}

// reportChanges compares a list with the last one and reports what differs.
// Versions are compared, as a watch that restarts lists everything again.
func (r *platformRuntime) reportChanges(seen map[types.UID]*unstructured.Unstructured, found []*unstructured.Unstructured) {
	present := make(map[types.UID]bool, len(found))
	for _, object := range found {
		present[object.GetUID()] = true
		// The UID identifies an Application: one that was deleted and created
		// again is a deletion and a new one.
		if before := seen[object.GetUID()]; before != nil && before.GetResourceVersion() == object.GetResourceVersion() {
			continue
		}
		seen[object.GetUID()] = object
		// Heartbeats have the state of the runtime's own Applications.
		if object.GetLabels()[sharedrepo.EntityLabel] != "" {
			r.membership.ReportSoon()
		}
		if app := r.decodeApplication(object); app != nil {
			r.reporter.Changed(app)
		}
	}
	for uid, object := range seen {
		if !present[uid] {
			delete(seen, uid)
			r.reporter.Deleted(report.Ref{Namespace: object.GetNamespace(), Name: object.GetName(), UID: string(uid)})
		}
	}
}

// commitTime returns when a revision of an Application was committed; the zero
// time if it is no commit of a single repository.
func (r *platformRuntime) commitTime(ctx context.Context, namespace, name, revision string) (time.Time, error) {
	commit, err := r.proxy.Commit(ctx, tracking.App{Namespace: namespace, Name: name}, revision)
	if err != nil || commit == nil {
		return time.Time{}, err
	}
	return commit.When, nil
}

// applicationsOf returns the client for the Applications of a namespace; *
// selects all.
func (a *agent) applicationsOf(namespace string) dynamic.ResourceInterface {
	resource := a.options.Cluster.Dynamic.Resource(v1alpha1.ApplicationResource())
	if namespace == everyNamespace {
		return resource
	}
	return resource.Namespace(namespace)
}

// listEverything selects all objects.
func listEverything() metav1.ListOptions { return metav1.ListOptions{} }

// tlsWith returns a configuration that trusts further authorities beside the
// system's; nil trusts those of the system alone. PEM without a certificate was
// refused when it was read.
func tlsWith(authorities []byte) *tls.Config {
	if len(authorities) == 0 {
		return nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	// The pool copies nothing, so that the caller's bytes are cloned.
	roots.AppendCertsFromPEM(slices.Clone(authorities))
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
