"""Ratings from a pandas DataFrame: fit, cross-validate, predict what a user would think of every film.

pip install pandas
python examples/ratings_from_dataframe.py
"""

import numpy as np
import pandas as pd
from sklearn.model_selection import cross_val_score

from rafm import RaFMRegressor

# Tastes and films have three hidden traits each; a rating is how well they agree, in stars.
rng = np.random.default_rng(0)
n_users, n_films, n_ratings = 300, 100, 12_000
tastes, films = rng.normal(size=(n_users, 3)), rng.normal(size=(n_films, 3))
user, film = rng.integers(n_users, size=n_ratings), rng.zipf(1.5, n_ratings) % n_films
stars = 3 + 0.6 * (tastes[user] * films[film]).sum(axis=1) + rng.normal(0, 0.3, n_ratings)
ratings = pd.DataFrame({"user_id": user, "film_id": film, "stars": stars.clip(1, 5).round(1)})

# Whole numbers are categories, as text and pandas categories are; columns={"film_id": "bins"} would change that.
columns = ["user_id", "film_id"]
model = RaFMRegressor(ranks=(2, 8), n_epochs=15)
errors = -cross_val_score(model, ratings[columns], ratings["stars"], cv=3, scoring="neg_root_mean_squared_error")
print(f"RMSE           {errors.mean():.3f} (three folds: {errors.round(3)})")
print(f"of a constant  {ratings['stars'].std():.3f}")

model.fit(ratings[columns], ratings["stars"])
unseen = pd.DataFrame({"user_id": 7, "film_id": range(n_films)})
unseen["prediction"] = model.predict(unseen)
print("\nuser 7 should like")
print(unseen.nlargest(3, "prediction").to_string(index=False))
