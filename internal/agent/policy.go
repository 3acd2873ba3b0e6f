package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/rights"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// maxReportedRights bounds the policy in a heartbeat, whose size the platform
// bounds as a whole.
const maxReportedRights = 256 << 10

// rightsPolicy is who may do what with the Applications of the runtime: the
// ConfigMap argocd-rbac-cm and the roles of the AppProjects. Every replica has
// it. It is safe for concurrent use.
type rightsPolicy struct {
	// refused is called for an object with lines that have no effect, once for
	// each text.
	refused func(object corev1.ObjectReference, text string)

	mu       sync.Mutex
	config   *policyObject // nil until the ConfigMap was looked for
	projects []*policyObject
	listed   bool
	// sources are the parsed objects by kind and name.
	sources  map[string]policySource
	compiled *rights.Policy
}

// policyObject is the ConfigMap or an AppProject.
type policyObject struct {
	corev1.ObjectReference
	config map[string]string
	roles  []rights.ProjectRole
}

// policySource is what was parsed of an object: the last policy that had no
// refused lines, as a refused line may be one that denies.
type policySource struct {
	valid    *rights.Policy
	problems string
}

// watch follows both until the context is done.
func (p *rightsPolicy) watch(ctx context.Context, a *agent) {
	home := a.options.ControlNamespace
	var watches sync.WaitGroup
	defer watches.Wait()
	watches.Go(func() {
		failed := a.logOnce("the ConfigMap "+home+"/"+rights.ConfigMap, nil)
		_ = kube.Follow(ctx, a.options.Cluster.Client.CoreV1().ConfigMaps(home), kube.Named(rights.ConfigMap), failed, p.setConfig)
	})
	watches.Go(func() {
		failed := a.logOnce("the AppProjects of the namespace "+home, nil)
		var projects dynamic.ResourceInterface = a.options.Cluster.Dynamic.Resource(v1alpha1.ProjectResource()).Namespace(home)
		_ = kube.Follow(ctx, projects, listEverything(), failed, p.setProjects)
	})
}

// setConfig replaces the ConfigMap; there may be none.
func (p *rightsPolicy) setConfig(found []*corev1.ConfigMap) {
	object := &policyObject{config: map[string]string{}}
	if len(found) > 0 {
		object.config = found[0].Data
		object.ObjectReference = corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: found[0].Namespace, Name: found[0].Name, UID: found[0].UID}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config = object
	p.compile()
}

// setProjects replaces the AppProjects.
func (p *rightsPolicy) setProjects(found []*unstructured.Unstructured) {
	var projects []*policyObject
	for _, object := range found {
		project, _, err := v1alpha1.DecodeProject(object.Object)
		if err != nil || len(project.Spec.Roles) == 0 {
			continue // the controller reports what cannot be decoded
		}
		one := &policyObject{ObjectReference: corev1.ObjectReference{
			APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		}}
		for _, role := range project.Spec.Roles {
			one.roles = append(one.roles, rights.ProjectRole{Name: role.Name, Policies: role.Policies, Groups: role.Groups})
		}
		projects = append(projects, one)
	}
	slices.SortFunc(projects, func(x, y *policyObject) int { return cmp.Compare(x.Name, y.Name) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.projects, p.listed = projects, true
	p.compile()
}

// compile makes the policy of all objects, once both kinds were read. The
// caller holds mu.
func (p *rightsPolicy) compile() {
	if p.config == nil || !p.listed {
		return
	}
	before := p.sources
	p.sources = map[string]policySource{}
	config := p.accept(p.config, before, func() (*rights.Policy, []refusal.Refusal) { return rights.ParseConfig(p.config.config) })
	all := []*rights.Policy{config}
	for _, project := range p.projects {
		all = append(all, p.accept(project, before, func() (*rights.Policy, []refusal.Refusal) {
			return rights.ParseProject(project.Name, project.roles, config.Mode())
		}))
	}
	p.compiled = rights.Merge(all...)
}

// accept parses one object. One with refused lines keeps the last policy
// without: the others of the runtime are not affected.
func (p *rightsPolicy) accept(object *policyObject, before map[string]policySource, parse func() (*rights.Policy, []refusal.Refusal)) *rights.Policy {
	key := object.Kind + "/" + object.Name
	parsed, refused := parse()
	last := before[key]
	now := policySource{valid: parsed}
	if len(refused) > 0 {
		now = policySource{valid: last.valid, problems: refusal.Summary(refused)}
		if now.valid == nil {
			now.valid = parsed
		}
		if now.problems != last.problems {
			p.refused(object.ObjectReference, now.problems)
		}
	}
	p.sources[key] = now
	return now.valid
}

// policy returns the policy, or why there is none yet.
func (p *rightsPolicy) policy() (*rights.Policy, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.compiled == nil {
		return nil, errors.New("the runtime has not read the ConfigMap " + rights.ConfigMap + " and the AppProjects yet: try again later, or see its log")
	}
	return p.compiled, nil
}

// report returns the sources of the policy for the platform, which decides by
// them what a user sees; nil while they are not read.
func (p *rightsPolicy) report() *platformv1.RightsPolicy {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.compiled == nil {
		return nil
	}
	message := &platformv1.RightsPolicy{Config: p.config.config}
	for _, project := range p.projects {
		one := &platformv1.ProjectRights{Project: project.Name}
		for _, role := range project.roles {
			one.Roles = append(one.Roles, &platformv1.ProjectRole{Name: role.Name, Policies: role.Policies, Groups: role.Groups})
		}
		message.Projects = append(message.Projects, one)
	}
	if proto.Size(message) > maxReportedRights {
		return &platformv1.RightsPolicy{TooLarge: true}
	}
	return message
}

// reportPolicy logs lines of a policy that have no effect. The leader writes an
// Event too, which those see who can read the object.
func (a *agent) reportPolicy(object corev1.ObjectReference, text string) {
	a.log.Error("refused rights; the last valid ones stay in effect", "kind", object.Kind, "name", object.Name, "detail", text)
	if a.leading.term.Load() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), settingsTimeout)
	defer cancel()
	err := a.options.Cluster.Announce(ctx, kube.Reporter{Controller: controllerName, Instance: a.options.Identity}, kube.Notice{
		Regarding: object, Warning: true, Reason: "RightsRefused", Action: "ReadRights", Note: text, Times: 1,
	})
	if err != nil {
		a.log.Debug("cannot write an Event", observe.KeyError, err) // the log has the same text
	}
}
