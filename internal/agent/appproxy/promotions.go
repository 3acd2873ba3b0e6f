package appproxy

import (
	"context"
	"fmt"
	"slices"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	argo "slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/promotion"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// maxEnded bounds the Promotions in a list that have ended.
const maxEnded = 50

// promotionView is what the caller of a request may see of Promotions: what
// concerns Applications that they may get.
type promotionView struct {
	*promotion.Board
	service *Service
	can     access
}

// viewPromotions reads Promotions for the caller of a request. Requests for an action
// read them again: what a page offered may be old by then.
func (s *Service) viewPromotions(ctx context.Context) (*promotionView, error) {
	can, err := s.accessOf(ctx)
	if err != nil {
		return nil, err
	}
	leave, err := acquire(ctx, s.reading)
	if err != nil {
		return nil, err
	}
	defer leave()
	board, err := s.promotions.Read(ctx, func() ([]*argo.Application, error) { return s.everyApplication(ctx) })
	if err != nil {
		return nil, s.toConnectError(err, tracking.App{Namespace: s.options.ControlNamespace})
	}
	return &promotionView{board, s, can}, nil
}

// everyApplication lists the Applications of the agent's namespaces, also those
// that the caller may not get: the right for an action is needed on each that it
// concerns. There is no selector for them, because a Product is named by a label
// or by an annotation.
func (s *Service) everyApplication(ctx context.Context) ([]*argo.Application, error) {
	var all []*argo.Application
	for _, namespace := range s.namespaces() {
		if namespace == everyNamespace {
			namespace = metav1.NamespaceAll
		}
		listed, err := s.inspector.List(ctx, namespace, "")
		if err != nil {
			return nil, err
		}
		for _, app := range listed {
			all = append(all, app.Application)
		}
	}
	return all, nil
}

// sees reports whether the caller may get an Application.
func (v *promotionView) sees(app *argo.Application) bool {
	return app != nil && v.can.decide(&inspect.Application{Application: app}, permission.Get).Allowed
}

// seesUnowned reports whether the caller may see what no Application decides
// about, such as a Product without one.
func (v *promotionView) seesUnowned() bool {
	return permission.Rule{Permission: permission.View}.Role(v.can.claims.Role)
}

// seesProduct reports whether the caller may get an Application of a Product. An
// environment in which they may get none keeps its name and its place in the
// order, and nothing else.
func (v *promotionView) seesProduct(product *promotion.BoardProduct) bool {
	apps := applicationsOf(product, "")
	return len(apps) == 0 && v.seesUnowned() || slices.ContainsFunc(apps, v.sees)
}

// applicationsOf returns the Applications of a Product in the environments of a
// flow, or of all flows.
func applicationsOf(product *promotion.BoardProduct, flow string) (apps []*argo.Application) {
	for i := range product.Flows {
		if flow != "" && product.Flows[i].Name != flow {
			continue
		}
		for _, environment := range product.Flows[i].Environments {
			apps = append(apps, environment.Applications...)
		}
	}
	return apps
}

// applicationsIn returns the Applications of a step. One that is gone is nil.
func (v *promotionView) applicationsIn(step *v1alpha1.PromotionStep) (apps []*argo.Application) {
	for _, key := range step.Applications {
		apps = append(apps, v.Application(key))
	}
	return apps
}

// seesAll reports whether the caller may get each Application of a step. Those
// that are gone hide nothing from callers who see all of the runtime.
func (v *promotionView) seesAll(step *v1alpha1.PromotionStep) bool {
	return !slices.ContainsFunc(v.applicationsIn(step), func(app *argo.Application) bool {
		return app == nil && !v.seesUnowned() || app != nil && !v.sees(app)
	})
}

// seesPromotion reports whether the caller may get one of the Applications of a
// Promotion.
func (v *promotionView) seesPromotion(of *v1alpha1.Promotion) bool {
	if len(of.Status.Steps) == 0 {
		product := v.product(of.Spec.Product)
		return product == nil && v.seesUnowned() || product != nil && v.seesProduct(product)
	}
	if from := of.Status.Source; from != nil && v.sees(v.Application(from.Namespace+"/"+from.Application)) {
		return true
	}
	for i := range of.Status.Steps {
		apps := v.applicationsIn(&of.Status.Steps[i])
		if slices.ContainsFunc(apps, v.sees) || v.seesUnowned() && slices.Contains(apps, nil) {
			return true
		}
	}
	return false
}

// product returns a Product; nil if there is none.
func (v *promotionView) product(name string) *promotion.BoardProduct {
	at := slices.IndexFunc(v.Products, func(one promotion.BoardProduct) bool { return one.Name == name })
	if at < 0 {
		return nil
	}
	return &v.Products[at]
}

// ListPromotions returns which version is in which environment, and the
// Promotions, with what the caller may request.
func (s *Service) ListPromotions(ctx context.Context, _ *connect.Request[runtimev1.ListPromotionsRequest]) (*connect.Response[runtimev1.ListPromotionsResponse], error) {
	view, err := s.viewPromotions(ctx)
	if err != nil {
		return nil, err
	}
	response := &runtimev1.ListPromotionsResponse{}
	for i := range view.Products {
		if product := &view.Products[i]; view.seesProduct(product) {
			response.Products = append(response.Products, view.productMessage(ctx, product))
		}
	}
	// All that have not ended are in the list, so that each can be approved and aborted.
	// Without a bound for the others the list would grow for years.
	ended := 0
	for _, one := range view.Promotions {
		if !view.seesPromotion(one) {
			continue
		}
		if one.Status.FinishedAt != nil {
			if ended++; ended > maxEnded {
				response.LeftOut++
				continue
			}
		}
		response.Promotions = append(response.Promotions, view.promotionMessage(one))
	}
	return connect.NewResponse(response), nil
}

// productMessage converts a Product with what is in its environments.
func (v *promotionView) productMessage(ctx context.Context, product *promotion.BoardProduct) *runtimev1.PromotionProduct {
	shown := &runtimev1.PromotionProduct{Name: product.Name, Problem: product.Problem}
	for i := range product.Flows {
		flow := &product.Flows[i]
		one := &runtimev1.PromotionFlowState{
			Name: flow.Name, Problem: flow.Problem,
			MayStart: flow.Problem == "" && v.require(promotionStart, writtenTo(product, flow.Name)) == nil,
		}
		for j := range flow.Environments {
			environment := &flow.Environments[j]
			in := &runtimev1.PromotionEnvironment{Name: environment.Name, Production: environment.Production, DependsOn: environment.DependsOn, Gates: environment.Gates}
			for _, app := range environment.Applications {
				if v.sees(app) {
					in.Applications = append(in.Applications, v.applicationMessage(ctx, product.Name, environment.Name, app))
				}
			}
			one.Environments = append(one.Environments, in)
		}
		shown.Flows = append(shown.Flows, one)
	}
	return shown
}

// applicationMessage converts an Application with its version.
func (v *promotionView) applicationMessage(ctx context.Context, product, environment string, app *argo.Application) *runtimev1.PromotionApplication {
	version := v.service.promotions.Version(ctx, v.Board, product, app)
	arrival := v.Arrival(product, environment, version, app)
	return &runtimev1.PromotionApplication{
		Ref: refOf(tracking.App{Namespace: app.Namespace, Name: app.Name}), Version: version, Revision: app.Status.Sync.Revision,
		Sync: string(app.Status.Sync.Status), Health: string(app.Status.Health.Status),
		Since: optionalTime(arrival.Since), By: arrival.By, Promotion: arrival.Promotion,
	}
}

// promotionMessage converts a Promotion. What a step is about is for callers who
// see all of its Applications, and so is the message, which sums up the steps.
func (v *promotionView) promotionMessage(of *v1alpha1.Promotion) *runtimev1.PromotionState {
	status := &of.Status
	shown := &runtimev1.PromotionState{
		Name: of.Name, Product: of.Spec.Product, Flow: status.Flow, Version: status.Version, Phase: status.Phase, By: of.Spec.By,
		CreatedAt: wire.Timestamp(of.CreationTimestamp.Time), FinishedAt: optionalTime(status.FinishedAt), Aborting: of.Spec.Abort && status.FinishedAt == nil,
	}
	if shown.Phase == "" {
		shown.Phase = v1alpha1.PromotionPending
	}
	if from := status.Source; from != nil && v.sees(v.Application(from.Namespace+"/"+from.Application)) {
		shown.SourceEnvironment, shown.SourceApplication, shown.SourceRevision = from.Environment, from.Application, from.Revision
	}
	// A step of an environment that the caller does not see is there without details:
	// the order of the others would be wrong without it.
	seesAll := true
	for i := range status.Steps {
		step := &status.Steps[i]
		one := &runtimev1.PromotionStepState{Environment: step.Environment, Phase: step.Phase}
		if v.seesAll(step) {
			v.fillStep(one, of, step)
		} else {
			seesAll = false
		}
		shown.Steps = append(shown.Steps, one)
	}
	if seesAll {
		shown.Message = status.Message
	}
	shown.MayAbort = status.FinishedAt == nil && !of.Spec.Abort && v.require(promotionAbort, v.abortedWith(of)) == nil
	return shown
}

// fillStep converts the details of a step.
func (v *promotionView) fillStep(shown *runtimev1.PromotionStepState, of *v1alpha1.Promotion, step *v1alpha1.PromotionStep) {
	shown.Action, shown.Message, shown.ApprovedBy = step.Action, step.Message, promotion.ApprovedBy(of, step)
	shown.StartedAt, shown.FinishedAt = optionalTime(step.StartedAt), optionalTime(step.FinishedAt)
	shown.MayApprove = v.NeedsApproval(of, step) && v.require(promotionApprove, v.applicationsIn(step)) == nil
	for _, write := range step.Writes {
		shown.Commits = append(shown.Commits, &runtimev1.PromotionCommit{
			Repository: write.Repository, Branch: write.Branch, Commit: write.Commit, PullRequest: write.PullRequest,
		})
	}
}

// findPromotion returns a Promotion that the caller may see.
func (v *promotionView) findPromotion(name string) (*v1alpha1.Promotion, error) {
	for _, one := range v.Promotions {
		if one.Name == name && v.seesPromotion(one) {
			return one, nil
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no Promotion %q in this runtime", name))
}
