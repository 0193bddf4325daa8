"""HorizontalPodAutoscalers that scale WarmModels, KEDA's among them: read, never written."""
