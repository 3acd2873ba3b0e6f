package appproxy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	argo "slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/promotion"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// The actions of Promotions, as policies spell them after
// action/slipway.dev/Promotion/.
const (
	promotionStart   = "start"
	promotionApprove = "approve"
	promotionAbort   = "abort"
)

// require fails without the right for an action on each of the Applications. One
// that is gone has no project that could give the right: the role of the user
// decides then.
func (v *promotionView) require(action string, apps []*argo.Application) error {
	kind := schema.GroupKind{Group: v1alpha1.Group, Kind: v1alpha1.KindPromotion}
	right := fmt.Sprintf("action/%s/%s/%s", kind.Group, kind.Kind, action)
	if len(apps) == 0 {
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("no Application is concerned"))
	}
	for _, app := range apps {
		if app == nil && permission.Action.Rule().Role(v.can.claims.Role) {
			continue
		}
		// The error must not name what the caller may not see.
		if !v.sees(app) {
			return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("you lack the right %s on all Applications that it concerns: an admin of the account can give it", right))
		}
		known := &inspect.Application{Application: app}
		if err := refusalOf(known, right, v.can.decideAction(known, kind, action)); err != nil {
			return err
		}
	}
	return nil
}

// writtenTo returns the Applications that promotions of a flow write to, or of
// all flows: those of all environments but the first.
func writtenTo(product *promotion.BoardProduct, flow string) (apps []*argo.Application) {
	for i := range product.Flows {
		if one := &product.Flows[i]; (flow == "" || one.Name == flow) && len(one.Environments) > 0 {
			for _, environment := range one.Environments[1:] {
				apps = append(apps, environment.Applications...)
				// Those of another runtime have no project here: the role of the user decides.
				if environment.Runtime != "" {
					apps = append(apps, nil)
				}
			}
		}
	}
	return apps
}

// abortedWith returns the Applications whose promotion an abort ends.
func (v *promotionView) abortedWith(of *v1alpha1.Promotion) (apps []*argo.Application) {
	for i := range of.Status.Steps {
		apps = append(apps, v.applicationsIn(&of.Status.Steps[i])...)
	}
	// One that has not begun would write to those of the Product.
	if product := v.product(of.Spec.Product); len(of.Status.Steps) == 0 && product != nil {
		apps = writtenTo(product, of.Spec.Flow)
	}
	return apps
}

// StartPromotion creates a Promotion.
func (s *Service) StartPromotion(ctx context.Context, request *connect.Request[runtimev1.StartPromotionRequest]) (*connect.Response[runtimev1.StartPromotionResponse], error) {
	view, err := s.viewPromotions(ctx)
	if err != nil {
		return nil, err
	}
	product := view.product(request.Msg.GetProduct())
	if product == nil || !view.seesProduct(product) {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no Product %q in this runtime", request.Msg.GetProduct()))
	}
	flow := request.Msg.GetFlow()
	if flow != "" && !slices.ContainsFunc(product.Flows, func(one promotion.BoardFlow) bool { return one.Name == flow }) {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("the Product %s has no PromotionFlow %q", product.Name, flow))
	}
	if err := view.require(promotionStart, writtenTo(product, flow)); err != nil {
		return nil, err
	}
	by := requestedBy(ctx)
	name, err := s.promotionRequests().Start(ctx, product.Name, flow, "", by)
	if apierrors.IsAlreadyExists(err) {
		return nil, connect.NewError(connect.CodeAborted, fmt.Errorf("a Promotion of %s was started in this second: try again", product.Name))
	}
	if err != nil {
		return nil, s.promotionError(err)
	}
	s.log.Info("started a promotion", "promotion", name, "by", by)
	return connect.NewResponse(&runtimev1.StartPromotionResponse{Name: name}), nil
}

// ApprovePromotion approves a Promotion for an environment.
func (s *Service) ApprovePromotion(ctx context.Context, request *connect.Request[runtimev1.ApprovePromotionRequest]) (*connect.Response[runtimev1.ApprovePromotionResponse], error) {
	view, err := s.viewPromotions(ctx)
	if err != nil {
		return nil, err
	}
	found, err := view.findPromotion(request.Msg.GetName())
	if err != nil {
		return nil, err
	}
	environment := request.Msg.GetEnvironment()
	at := slices.IndexFunc(found.Status.Steps, func(step v1alpha1.PromotionStep) bool { return step.Environment == environment })
	if at < 0 {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("the Promotion %s has no environment %q yet", found.Name, environment))
	}
	if err := view.require(promotionApprove, view.applicationsIn(&found.Status.Steps[at])); err != nil {
		return nil, err
	}
	by := requestedBy(ctx)
	if err := s.promotionRequests().Approve(ctx, found.Name, environment, by); err != nil {
		return nil, s.promotionError(err)
	}
	s.log.Info("approved a promotion", "promotion", found.Name, "environment", environment, "by", by)
	return connect.NewResponse(&runtimev1.ApprovePromotionResponse{}), nil
}

// AbortPromotion ends a Promotion; what was written stays.
func (s *Service) AbortPromotion(ctx context.Context, request *connect.Request[runtimev1.AbortPromotionRequest]) (*connect.Response[runtimev1.AbortPromotionResponse], error) {
	view, err := s.viewPromotions(ctx)
	if err != nil {
		return nil, err
	}
	found, err := view.findPromotion(request.Msg.GetName())
	if err != nil {
		return nil, err
	}
	if err := view.require(promotionAbort, view.abortedWith(found)); err != nil {
		return nil, err
	}
	if err := s.promotionRequests().Abort(ctx, found.Name); err != nil {
		return nil, s.promotionError(err)
	}
	s.log.Info("aborted a promotion", "promotion", found.Name, "by", requestedBy(ctx))
	return connect.NewResponse(&runtimev1.AbortPromotionResponse{}), nil
}

// promotionRequests writes to the Promotions of the control namespace.
func (s *Service) promotionRequests() promotion.Requests {
	resource := schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: v1alpha1.ResourcePromotion}
	return promotion.Requests{Promotions: s.options.Cluster.Dynamic.Resource(resource).Namespace(s.options.ControlNamespace), Manager: fieldManager}
}

// promotionError maps an error of a request.
func (s *Service) promotionError(err error) error {
	var state *promotion.StateError
	if errors.As(err, &state) {
		return connect.NewError(connect.CodeFailedPrecondition, err)
	}
	return s.toConnectError(err, tracking.App{Namespace: s.options.ControlNamespace})
}

// optionalTime converts a time of an object that may be absent.
func optionalTime(at *metav1.Time) *timestamppb.Timestamp {
	if at == nil {
		return nil
	}
	return timestamppb.New(at.Time)
}
