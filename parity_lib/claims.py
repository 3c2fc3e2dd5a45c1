"""The claims under audit: where each stands, what it says in our words, and how it is checked.

A check is written down before the run that it judges. Verdicts are given by the chapters and
collected from their results; nothing here knows how a claim turned out.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, in our words, with the check that was fixed before the run that is reported.

    Attributes
    ----------
    place : where the paper makes it.
    statement : the claim in our words.
    check : what decides it.
    figure : the name of the figure that shows it (or the section, where it is a table), on its chapter's page.
    """

    place: str
    statement: str
    check: str
    figure: str


CLAIMS: dict[str, Claim] = {
    "expr-ffnn": Claim(
        "Proposition 3",
        "k ReLU neurons with 2k + 2 distinct parameters express every k-parity.",
        "The largest risk over the sets tried, on all 2^n inputs, is below 1e-12 and the distinct numbers in "
        "the network are at most 2k + 2.",
        "proposition-3-checked-on-every-input",
    ),
    "expr-transformer": Claim(
        "Proposition 3, eq. 2",
        "k heads and k neurons, 18k + 2 parameters, express every k-parity; no temperature is named.",
        "Holds if the construction with the ReLU has risk below 0.01 with the paper's soft attention at "
        "temperature 1/n, for every n tried; holds with a change if it has risk below 1e-12 with hard "
        "attention.",
        "fig-construction",
    ),
    "fig2-left": Claim(
        "Appendix B.1, Figure 2 left",
        "Three heads trained on {8, 11, 18} each settle on a bit of their own with a score close to 1.",
        "Holds if the stated recipe (squared hinge, full batch) commits in more than half of the seeds; holds "
        "with a change if another recipe of the table does. Committed: the arg-max positions are exactly B "
        "and every head gives its position more than 0.6. Judged by the lower end of the Wilson interval.",
        "fig-success-left",
    ),
    "fig2-right": Claim(
        "Appendix B.1, Figure 2 right",
        "With the neighbours 16 and 17 in B, two heads often learn the direction half-way between them.",
        "Judged as fig2-left, on the share of seeds where two heads point within 0.1 positions of 16.5 and "
        "the remaining head gives the third bit more than 0.6.",
        "fig-shared",
    ),
    "init-loss": Claim(
        "Theorem 5",
        "The risk at the random start is 1, or close to it.",
        "Holds if the median exact risk over the starts is within 0.1 of 1 under the squared hinge at "
        "temperature 1/n; holds with a change if it is under the sigmoid hinge.",
        "fig-initial-risk",
    ),
    "no-other-gradient": Claim(
        "proof of Theorem 5",
        "Gradient descent updates no entry of the heads but a_13 and a_14. (Printed is a weaker sentence, no update "
        "where r != 1 and l is not 3 or 4; the vectorisation of A_1:k right after it keeps these two entries alone.)",
        "Holds if every other entry's exact gradient at random starts is below 1e-9 times the largest; holds "
        "with a change if that is so for all rows but the first.",
        "fig-entries",
    ),
    "convergence": Claim(
        "Theorem 5",
        "From the random start the risk shrinks by a constant factor a step, to 0, for any set of bits.",
        "Holds if the stated recipe (squared hinge, gradient descent, temperature 1/n) commits in more than "
        "half of the seeds at one of the step sizes tried; holds with a change if another loss or read-out "
        "does. Judged by the lower end of the Wilson interval.",
        "fig-fans",
    ),
    "jacobian-sign": Claim(
        "Appendix A, before eq. 10",
        "The derivative of attention is the formula as printed: a plus stands before the sum over the other positions.",
        "Holds if the printed formula agrees with autograd to 1e-9 at random heads; holds with a change if it "
        "does with a minus sign.",
        "signs-conflicts-constants",
    ),
    "lemma-14": Claim(
        "Lemmas 6 and 14",
        "The prediction is B-smooth in the heads, with the B of Lemma 14.",
        "Holds if the largest spectral norm of its Hessian, over random heads and inputs, is at most B.",
        "fig-constants",
    ),
    "lemma-15": Claim(
        "Lemma 15",
        "The prediction is Lipschitz in the heads, with the constant of Lemma 15.",
        "Holds if the largest norm of its gradient, over random heads and inputs, is at most the constant.",
        "fig-constants",
    ),
    "lemma-16": Claim(
        "Lemma 16",
        "Prediction times its gradient is Lipschitz in the heads, with the constant of Lemma 16.",
        "Holds if the largest spectral norm of its Jacobian, over random heads and inputs, is at most the constant.",
        "fig-constants",
    ),
    "lemma-7": Claim(
        "Lemma 7",
        "The risk is smooth in the heads, with the constant of Lemma 7.",
        "Holds if the largest spectral norm of the exact risk's Hessian, over random heads, is at most the constant.",
        "fig-constants",
    ),
    "lemma-8": Claim(
        "Lemma 8",
        "Half the squared gradient is at least mu times the risk, everywhere (so no bad stationary points).",
        "Fails if a point with risk above 0.1 is found where the ratio is below the stated mu (c_2 = 1) by a "
        "factor of ten or more; holds if along all trajectories the ratio stays above mu.",
        "fig-pl",
    ),
    "lemma-17": Claim(
        "Lemma 17",
        "The gradients of any two inputs never point against each other at a head.",
        "Holds if no pair of the 2^n inputs has a negative product at any of the random starts.",
        "signs-conflicts-constants",
    ),
    "lemma-18": Claim(
        "Lemma 18",
        "What a head reads has a gradient bounded below, for every input with a one in it (1...1 is not excluded).",
        "With the corrected sign: holds if the smallest squared bracket over inputs and starts is at least "
        "the bound with c_2 = 0.01; vacuous here if only a smaller c_2 would do.",
        "the-pl-condition-and-the-lower-bounds",
    ),
    "lemma-19": Claim(
        "Lemma 19",
        "Where the heads read zero, the gradients of the input and of its complement are bounded below by "
        "their losses.",
        "Holds if the inequality is true with c_2 = 0.01 at all starts, both sides computed; vacuous here if "
        "both sides are zero.",
        "the-pl-condition-and-the-lower-bounds",
    ),
    "xor-one-step": Claim(
        "abstract of the later version",
        "One gradient step of a single layer with two heads brings the loss of every input of the sparse XOR "
        "to nearly 0.",
        "The paper's own step is not public; ours is one exact population step from zero with zero-mean "
        "positions, the tent, the hinge and strength 4 ln d. Holds if the exact worst-input loss is below "
        "0.05 for every seed at every d tried, with characters and (d not a power of two) balanced positions; "
        "holds with a change if only from some d on; not tested if neither, since it would be our step that fails.",
        "fig-xor-one-step",
    ),
    "xor-params": Claim(
        "abstract of the later version",
        "Polylogarithmically many trainable parameters are enough, where feed-forward networks need order d of them.",
        "Holds if with m = (log2 d)^2, so 2m trainable numbers, every seed passes the check of xor-one-step "
        "at every d tried with 2m < d, and of trained networks (FFNN-1) with 2m parameters fewer than half "
        "learn (error below 1 %, upper end of the Wilson interval) while with 8d of them more than half do "
        "(lower end); holds with a change if only the part on the transformer does; not tested if that part does not, "
        "since it would be our step that fails.",
        "fig-xor-networks",
    ),
    "xor-softmax": Claim(
        "abstract of the later version",
        "The rapid discovery is due to the exact softmax alone: linear or component-wise attention does not manage it.",
        "Two losses by two embeddings at the largest d tried; every map gets the best of its step sizes and "
        "every rival the best scale of its read-out. A map manages a setting if its median worst-input loss "
        "there is below 0.5. Holds if softmax manages all four and no rival manages any; holds with a change "
        "if softmax manages all four, no rival all, and linear, ReLU, erf and the plain sigmoid none; not tested "
        "if our step with softmax does not manage all four.",
        "fig-xor-maps",
    ),
    "xor-samples": Claim(
        "abstract of the later version",
        "One step on finitely many samples is enough too, with a bound on how many.",
        "The paper's bound is not public, so at best it holds with a change: the bound derived here, (d + "
        "d^2/m) ln d. It does if at every d tried the median n that recovers the pair is at most 12 times the "
        "bound, these multiples differ by at most a factor of 10 over d, and from a random start with the "
        "product read-out more than half of all seeds reach a worst-input loss below 0.1 within the budget "
        "(lower end of the Wilson interval); not tested otherwise, since it would be our step that fails.",
        "fig-xor-samples",
    ),
    "uniform-any-k": Claim(
        "Remark 10",
        "Training works on uniform inputs for any number of bits k, odd or even.",
        "Holds if the recipe as stated (squared hinge, gradient descent, temperature 1/n) commits in more "
        "than half of the (set, start) pairs for every k tried, half of the sets with cyclic neighbours; "
        "holds with a change if one other recipe of the chapter does for every k. Judged by the lower end of "
        "the Wilson interval.",
        "fig-by-k",
    ),
    "soft-to-hard": Claim(
        "Proposition 21",
        "Where no two bits of B differ by one, soft heads of zero risk are a solution with hard attention too.",
        "A run counts as a soft solution if it closes at least 95 % of the gap between the risk of guessing "
        "and the least risk of its loss. Holds if every soft solution found for sets that meet the condition "
        "as printed (1 and n count as far apart) reads exactly B by arg-max and gives every bit more than one "
        "half of some head; holds with a change if that is so once 1 and n count as neighbours.",
        "fig-soft-hard",
    ),
    "lower-ffnn": Claim(
        "Proposition 4",
        "A one-hidden-layer network without an edge from a bit of B has risk 1, so a network that learns "
        "every k-parity has an edge from each of the n bits.",
        "Exact, on all 2^n inputs, for random and for trained networks that lack one edge and every B that "
        "contains the bit: holds if the risk is 1 to 1e-9; holds with a change (at least 1) if it is never "
        "below 1 - 1e-12 and equals the mean of 1 + p^2 (where the prediction p is at most 1 in size, else (1 "
        "+ |p|)^2 / 2) to 1e-9.",
        "fig-missing-edge",
    ),
    "efficiency": Claim(
        "Remark 9, Proposition 4",
        "Transformers learn k-parity with O(k) trainable numbers, one-hidden-layer networks need of order n.",
        "A model succeeds at (k, n) if it passes accuracy 0.99 within the budget for most seeds (lower end of "
        "the Wilson interval above 0.5), at the better of equally many learning rates. (a) the 2k-number "
        "transformer succeeds; (b) the smallest untied network that succeeds has at least n parameters. Holds "
        "if (a) and (b) are true at every (k, n) and the tied network with 2k numbers differs from the "
        "transformer; holds with a change, which names the (k, n) where (a) is true and whether the tied "
        "network is the same function, if (b) is true everywhere and (a) somewhere; fails otherwise.",
        "fig-smallest",
    ),
    "fixed-soft": Claim(
        "Theorem 11, Remark 12",
        "With m fixed soft heads, whatever the embeddings, the risk of any one-hidden-layer network on top is at "
        "least (1 - 2m / 2^ceil((n-1)/5m)) (1 - |alpha| |beta| 5m^2 / n)^2 for some B.",
        "Networks trained on random fixed heads, for a B that contains the position the proof picks, each "
        "held against the bound at its own norm with a tolerance of three standard errors of its risk. Holds "
        "if none lies below the bound as printed; holds with a change (second bracket clamped at 0) if none "
        "lies below the clamped bound and the pairwise lower bound computed for the same heads is never below "
        "it either; fails if one does; vacuous here if the clamped bound is positive in no setting tried.",
        "fig-norm",
    ),
    "fixed-hard": Claim(
        "Corollary 20, Remark 13",
        "With m fixed hard heads, the risk of any classifier on top is at least 1 - 2m / 2^ceil((n-1)/m) for some B.",
        "Exact best risk of any classifier for the worst B of size k, over at least 200 random head sets and "
        "hill- climbed ones: holds if it is never below the bound (to 1e-9) and the bound is positive for at "
        "least 50 of the sets; vacuous here if it is positive for fewer; fails if it is below once.",
        "fig-hard-bounds",
    ),
    "sens-average": Claim(
        "Hahn and Rofin, the explanation by average sensitivity",
        "The more sensitive a function, the sharper its minima and the harder it is to learn for a transformer.",
        "k-parity of random bits inside n, k = 1, ..., n, so that the average sensitivity is k. Holds if over all "
        "runs Spearman's correlation with k is at least 0.5 for the steps to learn (a run that never learns counts "
        "as last) and, over runs with a loss below 1e-3, for sharpness, and k = n has the most steps (median) and "
        "the highest mean sharpness; holds with a change, which is named, if at least one correlation reaches 0.5.",
        "fig-sens-bridge",
    ),
    "sens-sharpness": Claim(
        "Hahn and Rofin, Figure 1 and the corollary on sharpness",
        "Transformers that compute PARITY sit in sharper minima than those that compute FIRST, MEAN or MAJORITY, and "
        "the sharper the longer the input.",
        "Runs with a loss below 1e-3 on all inputs count, the authors' filter. Holds if at every length with "
        "converged runs PARITY's mean sharpness is above that of each easy function and the 95 % interval of "
        "PARITY's slope of sharpness against length lies above 0; holds with a change if the means are so but the "
        "interval reaches 0; not tested if PARITY converged at fewer than two lengths.",
        "fig-sens-length",
    ),
    "sens-tradeoff": Claim(
        "Hahn and Rofin, the main theorem and Figure 2",
        "A transformer for PARITY cannot keep both its parameter norm C and its layer-norm blowup small: C times the "
        "squared blowup has a lower bound, which grows with the length.",
        "Runs with a loss below 1e-3. (a) Over weight decays, the rank correlation of norm and blowup of PARITY runs "
        "is at most -0.8; (b) at every weight decay PARITY's mean of log(norm x blowup^2) is above that of FIRST; "
        "(c) the 95 % interval of its slope against length lies above 0 for PARITY. Holds if all three are so; holds "
        "with a change, which names what is missing, if (a) is; not tested with fewer than 6 PARITY runs in (a).",
        "fig-sens-tradeoff",
    ),
    "sens-bias": Claim(
        "Hahn and Rofin, Figure 4; Bhattamishra et al.",
        "Transformers prefer functions of low sensitivity: they extend K labels of a random function to a less "
        "sensitive one than random labels would, and with random weights they are less sensitive than LSTMs.",
        "(a) For every K at which most fits reach a training accuracy of 0.99, the 95 % interval of the paired "
        "difference in average sensitivity, learned minus random fill, lies below 0; (b) with weights N(0, 10^2) "
        "and U(-10, 10) the 95 % interval of the mean normalised sensitivity of transformers lies below that of "
        "LSTMs, at two layers. Holds if both are so; holds with a change if one is.",
        "fig-sens-bias",
    ),
}
