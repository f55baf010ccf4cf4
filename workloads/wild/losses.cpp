// Losses, forward.

#include <ATen/ATen.h>

#include <algorithm>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

constexpr int64_t kIgnored = -100;

/// A language model's loss over logits (T, V) in bf16; targets of -100 count for nothing.
at::Tensor token_loss(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor counts = targets != kIgnored;
  const at::Tensor log_p = at::log_softmax(wide(logits), -1);
  const at::Tensor picked = log_p.gather(1, targets.clamp_min(0).unsqueeze(1)).squeeze(1);
  return -at::where(counts, picked, 0).sum() / counts.sum();
}

/// RetinaNet's focal loss over logits and targets (A, C).
at::Tensor focal_loss(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor entropy =
      at::binary_cross_entropy_with_logits(logits, targets, {}, {}, at::Reduction::None);
  const at::Tensor p = at::sigmoid(logits);
  const at::Tensor right = p * targets + (1 - p) * (1 - targets);
  const at::Tensor balance = 0.25 * targets + 0.75 * (1 - targets);
  return (balance * (1 - right).square() * entropy).sum() / targets.sum().clamp_min(1);
}

/// Distillation at temperature 4, beside the labels' own loss: logits (B, C) of student and
/// teacher.
at::Tensor distillation(const at::Tensor& student, const at::Tensor& teacher,
                        const at::Tensor& labels) {
  const at::Tensor divergence = at::kl_div(at::log_softmax(student / 4, -1),
                                           at::softmax(teacher / 4, -1), at::Reduction::Sum);
  const at::Tensor own = at::cross_entropy_loss(student, labels);
  return 0.9 * 16 / static_cast<double>(student.size(0)) * divergence + 0.1 * own;
}

/// The dice loss of a segmentation: logits (B, C, H, W), labels (B, H, W).
at::Tensor dice_loss(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor p = at::softmax(logits, 1);
  const at::Tensor truth =
      at::one_hot(labels, logits.size(1)).permute({0, 3, 1, 2}).to(p.scalar_type());
  const at::Tensor common = (p * truth).sum({2, 3}), total = (p + truth).sum({2, 3});
  return 1 - ((2 * common + 1) / (total + 1)).mean();
}

/// A variational autoencoder's loss: pixels (B, P) as logits and targets, and the code's mean and
/// log-variance (B, L).
at::Tensor evidence_bound(const at::Tensor& logits, const at::Tensor& pixels,
                          const at::Tensor& mean, const at::Tensor& log_variance) {
  const at::Tensor reconstruction =
      at::binary_cross_entropy_with_logits(logits, pixels, {}, {}, at::Reduction::Sum);
  const at::Tensor divergence =
      -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum();
  return (reconstruction + divergence) / static_cast<double>(logits.size(0));
}

/// Q-learning's loss, Huber: values (B, A) now and of the next state, actions, rewards, ends (B).
/// Also the temporal differences, by which a replay buffer draws.
std::tuple<at::Tensor, at::Tensor> q_learning(const at::Tensor& values, const at::Tensor& next,
                                              const at::Tensor& actions, const at::Tensor& rewards,
                                              const at::Tensor& ends) {
  const at::Tensor target = rewards + 0.99 * (1 - ends) * next.amax(1);
  const at::Tensor value = values.gather(1, actions.unsqueeze(1)).squeeze(1);
  return {at::huber_loss(value, target), (target - value).abs()};
}

Instance token_loss_case(const Options& o) {
  const int64_t tokens = o.integer("tokens"), vocabulary = o.integer("vocabulary");
  Draw draw(o);
  const at::Tensor targets =
      draw.integers({tokens}, vocabulary).masked_fill(draw.uniform({tokens}) < 0.1, kIgnored);
  return bounded(instance_of(token_loss, draw.normal({tokens, vocabulary}, at::kBFloat16), targets),
                 2 * tokens * vocabulary + 8 * tokens + 4, (kFunction + 3) * tokens * vocabulary);
}

Instance focal_loss_case(const Options& o) {
  const int64_t anchors = o.integer("anchors"), classes = o.integer("classes"),
                count = anchors * classes;
  Draw draw(o);
  const at::Tensor logits = draw.normal({anchors, classes});
  const at::Tensor targets = (draw.uniform({anchors, classes}) < 0.02).to(at::kFloat);
  return bounded(instance_of(focal_loss, logits, targets), 8 * count + 4,
                 (3 * kFunction + 16) * count);
}

Instance distillation_case(const Options& o) {
  const int64_t batch = o.integer("batch"), classes = o.integer("classes");
  Draw draw(o);
  const at::Tensor student = draw.normal({batch, classes}), teacher = draw.normal({batch, classes});
  return bounded(
      instance_of(distillation, student * 3, teacher * 3, draw.integers({batch}, classes)),
      8 * batch * classes + 8 * batch + 4, (3 * kFunction + 14) * batch * classes);
}

Instance dice_loss_case(const Options& o) {
  const int64_t batch = o.integer("batch"), classes = o.integer("classes"),
                side = o.integer("side"), pixels = batch * side * side;
  Draw draw(o);
  const at::Tensor logits = draw.normal({batch, classes, side, side});
  return bounded(instance_of(dice_loss, logits, draw.integers({batch, side, side}, classes)),
                 4 * classes * pixels + 8 * pixels + 4, (kFunction + 6) * classes * pixels);
}

Instance evidence_bound_case(const Options& o) {
  const int64_t batch = o.integer("batch"), pixels = o.integer("pixels"), code = o.integer("code");
  Draw draw(o);
  return bounded(
      instance_of(evidence_bound, draw.normal({batch, pixels}), draw.uniform({batch, pixels}),
                  draw.normal({batch, code}), draw.normal({batch, code})),
      8 * batch * (pixels + code) + 4,
      batch * ((2 * kFunction + 6) * pixels + (kFunction + 5) * code));
}

Instance q_learning_case(const Options& o) {
  const int64_t batch = o.integer("batch"), actions = o.integer("actions");
  Draw draw(o);
  const at::Tensor values = draw.normal({batch, actions}), next = draw.normal({batch, actions});
  const at::Tensor ends = (draw.uniform({batch}) < 0.05).to(at::kFloat);
  // Of a row of values one is read, and with it its line.
  const int64_t row = std::min(4 * actions, kLine);
  return bounded(instance_of(q_learning, values, next, draw.integers({batch}, actions),
                             draw.normal({batch}), ends),
                 batch * (row + 4 * actions + 8 + 4 + 4 + 4) + 4, batch * (actions + 10));
}

}  // namespace

std::vector<Workload> loss_cases() {
  return {
      {"token_loss_bf16",
       "a language model's loss",
       {{"tokens", "1024", "37", "tokens"}, {"vocabulary", "32000", "211", "tokens there are"}},
       token_loss_case,
       kSums},
      {"focal_loss_f32",
       "RetinaNet's focal loss",
       {{"anchors", "49152", "67", "anchors"}, {"classes", "80", "13", "classes"}},
       focal_loss_case,
       kSums},
      {"distillation_f32",
       "distillation from a teacher's logits, beside the labels",
       {{"batch", "4096", "37", "samples"}, {"classes", "1000", "101", "classes"}},
       distillation_case,
       kSums},
      {"dice_loss_f32",
       "the dice loss of a segmentation",
       {{"batch", "4", "2", "images"},
        {"classes", "19", "5", "classes"},
        {"side", "256", "13", "rows and columns"}},
       dice_loss_case,
       kSums},
      {"evidence_bound_f32",
       "a variational autoencoder's loss",
       {{"batch", "4096", "37", "images"},
        {"pixels", "784", "101", "of an image"},
        {"code", "32", "7", "numbers of a code"}},
       evidence_bound_case,
       kSums},
      {"q_learning_f32",
       "Q-learning's Huber loss and temporal differences",
       {{"batch", "262144", "211", "transitions"}, {"actions", "18", "7", "actions"}},
       q_learning_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
