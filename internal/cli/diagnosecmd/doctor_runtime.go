package diagnosecmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/gitops/notify"
	"slipway.dev/slipway/internal/gitops/notify/service"
	"slipway.dev/slipway/internal/kube"
)

const (
	// mostObjects bounds what one check reads.
	mostObjects = 500
	// edgePods are the Pods of edges, and limitsPort the port at which those with
	// common limits exchange them.
	edgePods   = "app.kubernetes.io/part-of=slipway,app.kubernetes.io/component=edge"
	limitsPort = "limits"
)

// runtimeParts checks what a runtime has beside routes and Applications: settings of
// notifications, image updates, promotions, the division of Applications, previews, and
// limits over replicas of an edge. A part that the cluster does not have, or that the
// user may not read, is skipped.
func (e *diagnosis) runtimeParts(ctx context.Context, cluster *kube.Cluster) {
	bounded, cancel := context.WithTimeout(ctx, 3*apiclient.DialTimeout)
	defer cancel()
	e.notifications(bounded, cluster)
	e.imageUpdates(bounded, cluster)
	e.imageEvents(bounded, cluster)
	e.promotions(bounded, cluster)
	e.startEvents(bounded, cluster)
	e.divisions(bounded, cluster)
	e.previews(bounded, cluster)
	e.edgeLimits(bounded, cluster)
}

// notifications reads the settings of notifications as the agent does.
func (e *diagnosis) notifications(ctx context.Context, cluster *kube.Cluster) {
	const name = "notifications"
	list, err := cluster.Client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + notify.ConfigMap, Limit: mostObjects})
	switch {
	case err != nil:
		e.add(name, checkSkipped, "%v", err)
		return
	case len(list.Items) == 0:
		e.add(name, checkSkipped, "there is no ConfigMap %s", notify.ConfigMap)
		return
	}
	for i := range list.Items {
		settings := &list.Items[i]
		secret, err := cluster.Client.CoreV1().Secrets(settings.Namespace).Get(ctx, notify.Secret, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			secret = nil
		case err != nil:
			// Without it every reference to it would be a problem.
			e.add(name, checkSkipped, "namespace %s: %v", settings.Namespace, err)
			continue
		}
		e.notificationSettings(name, settings, secret)
	}
}

// notificationSettings adds the problems of the settings of one namespace.
// Values of the Secret can be part of them.
func (e *diagnosis) notificationSettings(name string, settings *corev1.ConfigMap, secret *corev1.Secret) {
	if secret != nil {
		for _, value := range secret.Data {
			e.hide.know(string(value))
		}
	}
	clients := service.NewClients(nil)
	defer clients.Close()
	read := notify.Read(settings, secret, clients)
	for _, problem := range read.Problems {
		e.add(name, checkFailed, "%s/%s: %s", settings.Namespace, settings.Name, problem)
	}
	if len(read.Problems) == 0 {
		e.add(name, checkOK, "%s/%s: %s", settings.Namespace, settings.Name, finding.Count(len(read.Services), "service", "services"))
	}
}

// imageUpdates reads the condition that the agent writes to each ImageUpdater.
func (e *diagnosis) imageUpdates(ctx context.Context, cluster *kube.Cluster) {
	const name = "image updates"
	kind := schema.GroupVersionResource{Group: "argocd-image-updater.argoproj.io", Version: "v1alpha1", Resource: "imageupdaters"}
	list, err := cluster.Dynamic.Resource(kind).List(ctx, metav1.ListOptions{Limit: mostObjects})
	switch {
	case apierrors.IsNotFound(err) || err == nil && len(list.Items) == 0:
		e.add(name, checkSkipped, "there is no ImageUpdater")
		return
	case err != nil:
		e.add(name, checkSkipped, "%v", err)
		return
	}
	ready := 0
	for i := range list.Items {
		item := &list.Items[i]
		state, message := readyCondition(item)
		if state == checkOK {
			ready++
			continue
		}
		e.add(name, state, "ImageUpdater %s/%s: %s", item.GetNamespace(), item.GetName(), message)
	}
	if ready > 0 {
		e.add(name, checkOK, "%s", finding.Count(ready, "ImageUpdater", "ImageUpdaters"))
	}
}

// readyCondition returns the state of an object by its condition Ready. One
// without it was not seen by any controller.
func readyCondition(object *unstructured.Unstructured) (state, message string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions") // of another form counts as none
	for _, entry := range conditions {
		condition, _ := entry.(map[string]any)
		if condition["type"] != "Ready" {
			continue
		}
		if condition["status"] == string(metav1.ConditionTrue) {
			return checkOK, ""
		}
		return checkFailed, fmt.Sprint(condition["message"])
	}
	return checkWarning, "no agent has read it: set imageUpdates.enabled of the agent"
}

// edgeLimits warns of edges with several replicas that count limits on their
// own.
func (e *diagnosis) edgeLimits(ctx context.Context, cluster *kube.Cluster) {
	const name = "limits"
	list, err := cluster.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: edgePods, Limit: mostObjects})
	if err != nil {
		e.add(name, checkSkipped, "%v", err)
		return
	}
	alone, all := map[string]int{}, map[string]int{}
	for i := range list.Items {
		pod := &list.Items[i]
		all[pod.Namespace]++
		if !hasPort(pod, limitsPort) {
			alone[pod.Namespace]++
		}
	}
	if len(all) == 0 {
		e.add(name, checkSkipped, "there is no edge")
		return
	}
	for _, namespace := range slices.Sorted(maps.Keys(all)) {
		if all[namespace] > 1 && alone[namespace] > 0 {
			e.add(name, checkWarning, "%d of %d edges in %s count limits on their own, so that a limit of 100 is more: set shared.limits.address of the edge", alone[namespace], all[namespace], namespace)
			continue
		}
		e.add(name, checkOK, "%s in %s", finding.Count(all[namespace], "edge", "edges"), namespace)
	}
}

// hasPort reports whether a container of a Pod has a port with a name.
func hasPort(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(container corev1.Container) bool {
		return slices.ContainsFunc(container.Ports, func(port corev1.ContainerPort) bool { return strings.EqualFold(port.Name, name) })
	})
}
