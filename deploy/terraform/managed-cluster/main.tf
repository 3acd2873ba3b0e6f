# A cluster that a runtime deploys to beside its own: a ServiceAccount there, and the
# Secret in the runtime's namespace by which the runtime knows it.
terraform {
  required_providers {
    kubernetes = {
      source  = "hashicorp/kubernetes"
      version = ">= 2.20"
    }
  }
}

variable "kubeconfig" {
  description = "File with both contexts."
  default     = "~/.kube/config"
}

variable "runtime_context" {
  description = "Context of the cluster that the runtime is in."
}

variable "runtime_namespace" {
  description = "Namespace of the runtime."
  default     = "slipway"
}

variable "cluster_context" {
  description = "Context of the cluster to add."
}

variable "cluster_name" {
  description = "Name of the cluster to add, as Applications write it."
}

variable "cluster_server" {
  description = "Address of its API server, as the runtime reaches it: https://HOST:PORT."
}

provider "kubernetes" {
  alias          = "runtime"
  config_path    = var.kubeconfig
  config_context = var.runtime_context
}

provider "kubernetes" {
  alias          = "cluster"
  config_path    = var.kubeconfig
  config_context = var.cluster_context
}

resource "kubernetes_service_account_v1" "manager" {
  provider = kubernetes.cluster
  metadata {
    name      = "slipway-manager"
    namespace = "kube-system"
  }
}

# The rights of the runtime in the cluster. Bind a smaller role for less.
resource "kubernetes_cluster_role_binding_v1" "manager" {
  provider = kubernetes.cluster
  metadata {
    name = "slipway-manager"
  }
  role_ref {
    api_group = "rbac.authorization.k8s.io"
    kind      = "ClusterRole"
    name      = "cluster-admin"
  }
  subject {
    kind      = "ServiceAccount"
    name      = kubernetes_service_account_v1.manager.metadata[0].name
    namespace = kubernetes_service_account_v1.manager.metadata[0].namespace
  }
}

# A token without an end: Terraform does not renew it, and it is in the state.
resource "kubernetes_secret_v1" "token" {
  provider = kubernetes.cluster
  type     = "kubernetes.io/service-account-token"
  metadata {
    name      = "slipway-manager-token"
    namespace = kubernetes_service_account_v1.manager.metadata[0].namespace
    annotations = {
      "kubernetes.io/service-account.name" = kubernetes_service_account_v1.manager.metadata[0].name
    }
  }
  wait_for_service_account_token = true
}

resource "kubernetes_secret_v1" "cluster" {
  provider = kubernetes.runtime
  metadata {
    name      = "cluster-${var.cluster_name}"
    namespace = var.runtime_namespace
    labels = {
      "argocd.argoproj.io/secret-type" = "cluster"
    }
  }
  data = {
    name   = var.cluster_name
    server = var.cluster_server
    config = jsonencode({
      bearerToken     = kubernetes_secret_v1.token.data["token"]
      tlsClientConfig = { caData = base64encode(kubernetes_secret_v1.token.data["ca.crt"]) }
    })
  }
  depends_on = [kubernetes_cluster_role_binding_v1.manager]
}
