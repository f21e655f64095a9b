/* The cost model of specdemo/theory.py, for sliders that answer at once. A test holds the two together. */
sd.theory = {
  largest: 16, // the longest draft that is looked at
  tokens({ alpha, drafts = 1 }, gamma) {
    let expected = 0;
    for (let i = 0; i <= gamma; i++) expected += alpha ** i;
    return drafts * expected + 1 - drafts;
  },
  cost({ c, slope = 0, o = 0, drafts = 1 }, gamma) {
    return gamma === 0 ? 1 : drafts * (1 + slope * gamma + c * gamma + o) + (1 - drafts) * (1 + o);
  },
  speedup: (model, gamma) => sd.theory.tokens(model, gamma) / sd.theory.cost(model, gamma),
  best(model) {
    let best = [0, 1];
    for (let gamma = 1; gamma <= sd.theory.largest; gamma++) {
      const speedup = sd.theory.speedup(model, gamma);
      if (speedup > best[1]) best = [gamma, speedup];
    }
    return best;
  },
  millionTokens: (pricePerHour, tokensPerSecond) => (pricePerHour / 3600 / tokensPerSecond) * 1e6,
};
