package status

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
)

const (
	// deploymentLabel is on the Deployments of Gateways and their Services, with the name of
	// the Lease of the election: edges of different classes can share a namespace.
	deploymentLabel = "slipway.dev/gateway-deployments"
	// podLabel is on the Pods of a Deployment, with its name.
	podLabel = "slipway.dev/gateway-deployment"
	// gatewayAnnotation has the Gateway of a Deployment, and hashAnnotation the hash of what
	// was applied.
	gatewayAnnotation = "slipway.dev/gateway"
	hashAnnotation    = "slipway.dev/applied-hash"
	// gatewayVariable is the option of the Pods that names their Gateway.
	gatewayVariable = "SLIPWAY_PROVIDERS_KUBERNETESGATEWAY_GATEWAY"

	// deploymentsResync is how often the Deployments are compared without a change: the one
	// of the edge, which is their template, is not watched.
	deploymentsResync = 10 * time.Second
)

// GatewayDeployments gives each Gateway a Deployment of its own, and a Service with the
// Pods of it. Both are in the namespace of the edge: tenants can neither enter the Pods nor
// read their credentials. They have nothing that the author of a Gateway chooses; labels of
// theirs could put the Pods behind other Services of the namespace.
//
// The Pods are those of the Deployment of the edge, with the option that names the Gateway.
// The leader compares all of them with their template, at changes and from time to time.
type GatewayDeployments struct {
	cluster  *kube.Cluster
	template string
	group    string // the Lease of the election
	log      *slog.Logger
	failures failureLog

	mu sync.Mutex
	// ours has the Gateways that were read, and whether they are ours.
	ours    map[snapshot.Ref]bool
	changed chan struct{} // holds at most one signal
}

// NewGatewayDeployments returns the Deployments for an edge with a Lease for its election.
// template is the Deployment of the edge. It sends nothing before Lead.
func NewGatewayDeployments(cluster *kube.Cluster, template, group string, log *slog.Logger) *GatewayDeployments {
	return &GatewayDeployments{
		cluster: cluster, template: template, group: group, log: log, ours: map[snapshot.Ref]bool{}, changed: make(chan struct{}, 1),
	}
}

// set records whether a Gateway is ours. It returns at once.
func (d *GatewayDeployments) set(ref snapshot.Ref, ours bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if before, known := d.ours[ref]; known && before == ours {
		return
	}
	d.ours[ref] = ours
	d.signal()
}

// forget removes a Gateway that was deleted.
func (d *GatewayDeployments) forget(ref snapshot.Ref) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.ours[ref]; known {
		delete(d.ours, ref)
		d.signal()
	}
}

func (d *GatewayDeployments) signal() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// Lead keeps the Deployments as they should be until the context is done.
func (d *GatewayDeployments) Lead(ctx context.Context) {
	resync := time.NewTicker(deploymentsResync)
	defer resync.Stop()
	for {
		if err := d.reconcile(ctx); err != nil && ctx.Err() == nil {
			d.failures.log(d.log, "write of the Deployments of Gateways failed, retrying", d.template, err)
		}
		if backoff.Sleep(ctx, publishInterval) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-d.changed:
		case <-resync.C:
		}
	}
}

// generated are the objects of the namespace, by their name.
type generated struct {
	deployments map[string]*appsv1.Deployment
	services    map[string]bool
}

// reconcile applies the Deployments that are missing or differ, and deletes those of
// Gateways that are gone.
func (d *GatewayDeployments) reconcile(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deploymentsTimeout)
	defer cancel()
	template, err := d.cluster.Client.AppsV1().Deployments(d.cluster.Namespace).Get(ctx, d.template, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the Deployment of the edge: %w", err)
	}
	live, err := d.list(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	known := maps.Clone(d.ours)
	d.mu.Unlock()
	for _, ref := range slices.SortedFunc(maps.Keys(known), snapshot.Ref.Compare) {
		if !known[ref] {
			continue
		}
		name := gateway.DeploymentName(ref.Namespace, ref.Name)
		deployment, service, err := d.objects(template, ref, name)
		if err != nil {
			return err
		}
		if before := live.deployments[name]; before != nil && live.services[name] && before.Annotations[hashAnnotation] == deployment.Annotations[hashAnnotation] {
			continue
		}
		if err := d.apply(ctx, deployment, service); err != nil {
			return err
		}
		d.log.Info("a Gateway has a Deployment", "gateway", ref.String(), "deployment", name)
	}
	for name, deployment := range live.deployments {
		if err := d.removeUnused(ctx, name, deployment, known); err != nil {
			return err
		}
	}
	return nil
}

// deploymentsTimeout bounds one comparison of all Deployments.
const deploymentsTimeout = time.Minute

// list reads what was generated before.
func (d *GatewayDeployments) list(ctx context.Context) (generated, error) {
	options := metav1.ListOptions{LabelSelector: deploymentLabel + "=" + d.group}
	live := generated{deployments: map[string]*appsv1.Deployment{}, services: map[string]bool{}}
	deployments, err := d.cluster.Client.AppsV1().Deployments(d.cluster.Namespace).List(ctx, options)
	if err != nil {
		return live, fmt.Errorf("list the Deployments of Gateways: %w", err)
	}
	services, err := d.cluster.Client.CoreV1().Services(d.cluster.Namespace).List(ctx, options)
	if err != nil {
		return live, fmt.Errorf("list the Services of Gateways: %w", err)
	}
	for i := range deployments.Items {
		live.deployments[deployments.Items[i].Name] = &deployments.Items[i]
	}
	for i := range services.Items {
		live.services[services.Items[i].Name] = true
	}
	return live, nil
}

// objects returns the Deployment of a Gateway and the Service with its Pods.
func (d *GatewayDeployments) objects(template *appsv1.Deployment, ref snapshot.Ref, name string) (*appsv1.Deployment, *corev1.Service, error) {
	no := false
	meta := metav1.ObjectMeta{
		Namespace: d.cluster.Namespace, Name: name,
		Labels:      map[string]string{deploymentLabel: d.group, "app.kubernetes.io/managed-by": FieldManager, "app.kubernetes.io/part-of": "slipway"},
		Annotations: map[string]string{gatewayAnnotation: ref.Namespace + "/" + ref.Name},
		// They go with the edge: the Gateway is in another namespace and cannot own them.
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: template.Name, UID: template.UID, BlockOwnerDeletion: &no}},
	}
	selector := map[string]string{podLabel: name}
	pods := *template.Spec.Template.DeepCopy()
	// Not the labels of the edge, whose Service would lead to these Pods.
	pods.Labels = map[string]string{podLabel: name, "app.kubernetes.io/name": "slipway-gateway", "app.kubernetes.io/part-of": "slipway"}
	respread(&pods.Spec, selector)
	container := &pods.Spec.Containers[0]
	container.Env = append(slices.DeleteFunc(container.Env, func(of corev1.EnvVar) bool { return of.Name == gatewayVariable }),
		corev1.EnvVar{Name: gatewayVariable, Value: ref.Namespace + "/" + ref.Name})
	deployment := &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas: template.Spec.Replicas, Selector: &metav1.LabelSelector{MatchLabels: selector}, Template: pods, Strategy: template.Spec.Strategy,
		},
	}
	text, err := json.Marshal(deployment)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the Deployment of %s: %w", ref, err)
	}
	sum := sha256.Sum256(text)
	deployment.Annotations[hashAnnotation] = hex.EncodeToString(sum[:16])
	service := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta,
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: selector},
	}
	return deployment, service, nil
}

// respread makes the rules that spread the Pods of the edge count these Pods.
func respread(spec *corev1.PodSpec, selector map[string]string) {
	of := &metav1.LabelSelector{MatchLabels: selector}
	for i := range spec.TopologySpreadConstraints {
		spec.TopologySpreadConstraints[i].LabelSelector = of
	}
	if spec.Affinity == nil || spec.Affinity.PodAntiAffinity == nil {
		return
	}
	apart := spec.Affinity.PodAntiAffinity
	for i := range apart.RequiredDuringSchedulingIgnoredDuringExecution {
		apart.RequiredDuringSchedulingIgnoredDuringExecution[i].LabelSelector = of
	}
	for i := range apart.PreferredDuringSchedulingIgnoredDuringExecution {
		apart.PreferredDuringSchedulingIgnoredDuringExecution[i].PodAffinityTerm.LabelSelector = of
	}
}

// apply writes a Deployment and its Service.
func (d *GatewayDeployments) apply(ctx context.Context, deployment *appsv1.Deployment, service *corev1.Service) error {
	force := true
	options := metav1.PatchOptions{FieldManager: FieldManager, Force: &force}
	text, err := json.Marshal(service)
	if err == nil {
		_, err = d.cluster.Client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.ApplyPatchType, text, options)
	}
	if err != nil {
		return fmt.Errorf("apply the Service %s: %w", service.Name, err)
	}
	text, err = json.Marshal(deployment)
	if err == nil {
		_, err = d.cluster.Client.AppsV1().Deployments(deployment.Namespace).Patch(ctx, deployment.Name, types.ApplyPatchType, text, options)
	}
	if err != nil {
		return fmt.Errorf("apply the Deployment %s: %w", deployment.Name, err)
	}
	return nil
}

// removeUnused deletes a Deployment whose Gateway is gone or not ours. A Gateway that was
// not read yet, at the start of a leader, is looked for before.
func (d *GatewayDeployments) removeUnused(ctx context.Context, name string, deployment *appsv1.Deployment, known map[snapshot.Ref]bool) error {
	namespace, of, _ := strings.Cut(deployment.Annotations[gatewayAnnotation], "/")
	ref := snapshot.Ref{Kind: snapshot.Gateway, Namespace: namespace, Name: of}
	ours, read := known[ref]
	if ours && gateway.DeploymentName(namespace, of) == name {
		return nil
	}
	if !read && of != "" {
		exists, err := d.exists(ctx, ref)
		if exists || err != nil {
			return err
		}
	}
	inBackground := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &inBackground}
	if err := d.cluster.Client.AppsV1().Deployments(d.cluster.Namespace).Delete(ctx, name, options); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the Deployment %s: %w", name, err)
	}
	if err := d.cluster.Client.CoreV1().Services(d.cluster.Namespace).Delete(ctx, name, options); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the Service %s: %w", name, err)
	}
	d.log.Info("deleted the Deployment of a Gateway that is gone", "gateway", ref.String(), "deployment", name)
	return nil
}

// exists reports whether the cluster has a Gateway. The role allows lists only.
func (d *GatewayDeployments) exists(ctx context.Context, ref snapshot.Ref) (bool, error) {
	found, err := d.cluster.Dynamic.Resource(gatewayv1.SchemeGroupVersion.WithResource(snapshot.GatewayResource(ref.Kind))).Namespace(ref.Namespace).
		List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + ref.Name})
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", ref, err)
	}
	return len(found.Items) > 0, nil
}
